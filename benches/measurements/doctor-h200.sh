#!/bin/sh
# Compares the doctor's output on a machine with a GPU and two cuDNNs with the output of the machine's tools:
#   benches/measurements/doctor-h200.sh DOCTOR [PYTHON]
# DOCTOR is the program cudnn-doctor; PYTHON is a Python with PyTorch and JAX. Prints Markdown.
doctor=$1
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

show() { # TITLE COMMAND...
    printf '\n### %s\n\n```\n$ %s\n' "$1" "$(echo "$2" | sed "s|$doctor|cudnn-doctor|g")"
    sh -c "$2" 2>&1
    printf '(exit status %s)\n```\n' "$?"
}

printf '## The machine\n'
show 'The driver and the GPU' "nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader"
show 'The Python packages' "$python -c 'import torch, jax; print(torch.__version__, torch.backends.cudnn.version(), jax.__version__)'; $python -m pip list 2> /dev/null | grep -i -E 'cudnn|cublas|nvrtc|^torch |^jax'"
show 'The Debian packages' "dpkg -l '*cudnn*' | tail -n +6"

printf '\n## The doctor\n'
environment=$("$python" -c 'import sys; print(sys.prefix)')
show 'list' "VIRTUAL_ENV=$environment $doctor list"
show 'list, with the GPUs that kernels are for' "VIRTUAL_ENV=$environment $doctor list --deep | grep -E '^/|kernels in'"
show 'check --gpu, the wheel' "VIRTUAL_ENV=$environment $doctor check --gpu"
show 'check --gpu, the Debian package' "PATH=/usr/bin:/bin $doctor check --gpu"

printf '\n## Which files libtorch_cuda.so gets\n'
torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
show 'explain' "$doctor explain $torch/lib/libtorch_cuda.so"
show 'ld.so itself (LD_DEBUG=libs, while torch is imported and convolves)' \
    "LD_DEBUG=libs LD_DEBUG_OUTPUT=$work/debug $python -c 'import torch; torch.nn.functional.conv2d(torch.ones(1,8,8,8,device=\"cuda\"), torch.ones(8,8,3,3,device=\"cuda\")); torch.cuda.synchronize()'; cat $work/debug.* | grep -h 'calling init' | sed 's/.*calling init: //' | grep -E 'libcudnn|libcublas|libnvrtc|libcudart|libcuda\\.|libnvJitLink' | sort -u"

printf '\n## Running processes\n'
cat > "$work/with_torch.py" <<'PY'
import time, torch
x = torch.ones(8, 64, 56, 56, device="cuda", dtype=torch.half)
torch.nn.functional.conv2d(x, torch.ones(64, 64, 3, 3, device="cuda", dtype=torch.half))
torch.cuda.synchronize()
print("torch.backends.cudnn.version():", torch.backends.cudnn.version(), flush=True)
time.sleep(60)
PY
cat > "$work/with_jax.py" <<'PY'
import time, jax, jax.numpy as jnp
x = jnp.ones((8, 64, 56, 56), jnp.bfloat16)
y = jax.lax.conv(x, jnp.ones((64, 64, 3, 3), jnp.bfloat16), (1, 1), "SAME")
y.block_until_ready()
print("jax.devices():", jax.devices(), flush=True)
time.sleep(60)
PY
for framework in torch jax; do
    XLA_PYTHON_CLIENT_PREALLOCATE=false "$python" "$work/with_$framework.py" > "$work/output" 2>&1 &
    process=$!
    for _ in $(seq 240); do
        grep -q '()' "$work/output" && break
        sleep 0.5
    done
    show "pid of a process with $framework" "cat $work/output; $doctor pid $process"
    show "The same by /proc" "grep -h -o -E '/.*(libcudnn|libcublas|libnvrtc|libcudart|libcuda|libnvJitLink)[^/]*$' /proc/$process/maps | sort -u"
    kill $process
    wait $process 2> /dev/null
done

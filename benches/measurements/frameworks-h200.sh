#!/bin/sh
# Runs PyTorch and JAX through `cudnn-doctor check --run` on a machine with a GPU: as installed, and in environments that
# are broken in four ways:
#   benches/measurements/frameworks-h200.sh DOCTOR [PYTHON [CUDNN_CU12]]
# DOCTOR is the program cudnn-doctor; PYTHON is a Python with PyTorch; CUDNN_CU12 is a directory with a cuDNN for CUDA 12.
# Another cuDNN must be in /usr/lib/x86_64-linux-gnu. Only changes a temporary directory. Prints Markdown.
doctor=$1
python=${2:-python3}
cudnn_cu12=$3
debian=/usr/lib/x86_64-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The first Python with JAX.
jax=
for candidate in "$python" /opt/*/.venv/bin/python /opt/*/bin/python python3; do
    if "$candidate" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("jax") is None)' 2> /dev/null; then
        jax=$candidate
        break
    fi
done

# Shows the run and its finding, without other findings of the check.
show() { # TITLE FRAMEWORK PYTHON [VARIABLE=VALUE ...]
    title=$1 framework=$2 program=$3
    shift 3
    printf '\n### %s\n\n```\n$ %s\n' "$title" \
        "$(echo "$* cudnn-doctor check --run $framework --python $program" | sed "s|$work|\$work|g; s|^ *||")"
    start=$(date +%s)
    env "$@" timeout 150 "$doctor" check --run "$framework" --python "$program" > "$work/output" 2>&1
    status=$?
    awk 'BEGIN { RS = ""; ORS = "\n\n" } /^(PyTorch|JAX|TensorFlow|ONNX Runtime|CTranslate2)/ || /\[C09/' "$work/output" | sed "s|$work|\$work|g"
    [ -s "$work/output" ] || echo '(no output)'
    printf '(exit status %s, %s s)\n```\n' "$status" "$(($(date +%s) - start))"
}

# Creates a virtual environment with the packages of another one. Changed packages get real directories with links to all
# files, because `$ORIGIN/..` in a run path follows links. All other packages are links.
environment() { # NAME PYTHON
    root=$work/$1
    packages=$("$2" -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
    version=$("$2" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    site=$root/lib/$version/site-packages
    mkdir -p "$site" "$root/bin"
    program=$("$2" -c 'import os, sys; print(os.path.realpath(sys.executable))')
    ln -s "$program" "$root/bin/python3"
    printf 'home = %s\n' "$(dirname "$program")" > "$root/pyvenv.cfg"
    for package in "$packages"/*; do
        case ${package##*/} in
            torch | nvidia | jax_plugins | jax_cuda*_plugin) cp -as "$package" "$site/" ;;
            *) ln -s "$package" "$site/" ;;
        esac
    done
}

printf '## As installed\n'
show 'PyTorch' torch "$python"
[ -n "$jax" ] && show 'JAX' jax "$jax"
# The other frameworks, where they are installed.
for framework in tensorflow onnxruntime ctranslate2; do
    for candidate in "$python" /opt/*/.venv/bin/python /opt/*/bin/python python3; do
        if "$candidate" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$framework') is None)" \
            2> /dev/null; then
            show "$framework" "$framework" "$candidate"
            break
        fi
    done
done

printf '\n## An older cuDNN first\n'
old=$work/old/nvidia/cudnn/lib
mkdir -p "$old"
touch "$work/old/nvidia/cudnn/__init__.py"
for file in "$debian"/libcudnn*.so.9; do
    ln -s "$(readlink -f "$file")" "$old/${file##*/}"
done
library_path=$old${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
show 'PyTorch, by LD_LIBRARY_PATH' torch "$python" "LD_LIBRARY_PATH=$library_path"
show 'PyTorch, by PYTHONPATH' torch "$python" "PYTHONPATH=$work/old"
[ -n "$jax" ] && show 'JAX, by PYTHONPATH' jax "$jax" "PYTHONPATH=$work/old"

printf '\n## Libraries of CUDA 12 in place of those of CUDA 13\n'
environment cuda-12 "$python"
for file in "$site"/nvidia/cu13/lib/libcublas*.so.13; do
    mv "$file" "${file%.13}.12"
done
show 'PyTorch, with cuBLAS of CUDA 12' torch "$root/bin/python3"
if [ -n "$cudnn_cu12" ]; then
    environment cudnn-cu12 "$python"
    for file in "$cudnn_cu12"/libcudnn*.so.9; do
        ln -sf "$(readlink -f "$file")" "$site/nvidia/cudnn/lib/${file##*/}"
    done
    show 'PyTorch, with cuDNN for CUDA 12' torch "$root/bin/python3"
fi

printf '\n## A library of cuDNN is missing\n'
environment incomplete "$python"
rm "$site/nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9"
show 'PyTorch, without the precompiled engines' torch "$root/bin/python3"
environment incomplete-cnn "$python"
rm "$site/nvidia/cudnn/lib/libcudnn_graph.so.9"
show 'PyTorch, without graph' torch "$root/bin/python3"
if [ -n "$jax" ]; then
    environment incomplete-jax "$jax"
    rm "$site/nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9"
    show 'JAX, without the precompiled engines' jax "$root/bin/python3"
fi

#!/usr/bin/env python3
"""Measures the times of PyTorch and JAX on NVIDIA's shim and on the drop-in library. `all-layers.py` compares the results.

    drop-in-h200.py LIBRARY     LIBRARY is the drop-in's libcudnn.so.9; run this with the Python that has PyTorch and JAX

Every method runs in a new process. Prints Markdown. One method replaces the file of NVIDIA's shim and restores it afterwards.
"""
import contextlib, glob, hashlib, json, os, shutil, statistics, subprocess, sys, sysconfig, time

from torch_step import training_step


def digest(*values):
    sha = hashlib.sha256()
    for value in values:
        sha.update(value)
    return sha.hexdigest()[:16]


def with_torch():
    import threading
    import torch
    import torch.nn.functional as F

    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = False
    found = {}

    def bits(*tensors):
        torch.cuda.synchronize()
        return digest(*(t.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes() for t in tensors))

    def seeded(*shape, dtype=torch.float, scale=1.0):
        generator = torch.Generator().manual_seed(sum(shape))
        return (torch.randn(*shape, generator=generator) * scale).to("cuda", dtype)

    def convolve(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = F.conv2d(x, w, padding=1)
        y.backward(torch.ones_like(y))
        return y, x.grad, w.grad

    for dtype in (torch.float, torch.half, torch.bfloat16):
        x, w = seeded(16, 64, 56, 56, dtype=dtype), seeded(128, 64, 3, 3, dtype=dtype, scale=0.05)
        found[f"convolution, forward and backward, {dtype}"] = bits(*convolve(x, w))
        last = torch.channels_last
        x, w = x.contiguous(memory_format=last), w.contiguous(memory_format=last)
        found[f"convolution, forward and backward, {dtype}, channels last"] = bits(*convolve(x, w))
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        torch.manual_seed(1)
        net = kind(128, 256, num_layers=2).cuda()
        x = seeded(50, 32, 128).requires_grad_()
        y = net(x)[0]
        y.sum().backward()
        found[kind.__name__] = bits(y, x.grad, *(p.grad for p in net.parameters()))
    x = seeded(32, 64, 28, 28).requires_grad_()
    y = F.batch_norm(x, torch.zeros(64).cuda(), torch.ones(64).cuda(), torch.ones(64).cuda(), torch.zeros(64).cuda(), True)
    y.square().sum().backward()
    found["batch norm"] = bits(y, x.grad)
    scores = seeded(50, 16, 20).log_softmax(2)
    targets = torch.randint(1, 20, (16 * 10,), dtype=torch.int32, generator=torch.Generator().manual_seed(3))
    # PyTorch may choose its own kernel, so call cuDNN's explicitly.
    loss, gradient = torch._cudnn_ctc_loss(scores.detach(), targets, [50] * 16, [10] * 16, 0, True, False)
    found["CTC loss"] = bits(loss, gradient)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (seeded(4, 8, 256, 64, dtype=torch.half, scale=0.5).requires_grad_() for _ in range(3))
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y.sum().backward()
    found["cuDNN attention"] = bits(y, q.grad, k.grad, v.grad)
    x, w = seeded(16, 64, 56, 56, dtype=torch.half), seeded(64, 64, 3, 3, dtype=torch.half, scale=0.05)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            F.conv2d(x, w, padding=1)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        y = F.conv2d(x, w, padding=1)
    graph.replay()
    found["CUDA graph"] = bits(y)
    results = [None, None]

    def in_a_stream(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                results[index] = F.conv2d(x, w, padding=1)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=in_a_stream, args=(index,)) for index in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    found["two threads, two streams"] = bits(*results)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, False
    for _ in range(3):
        y = F.conv2d(x, w, padding=1)
    found["torch.backends.cudnn.benchmark"] = bits(y)

    # A training step, end to end.
    step = training_step(64, 128)
    for _ in range(30):
        step()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return found, statistics.median(times) * 1e3


def with_jax():
    import jax
    import jax.numpy as jnp
    import numpy

    found = {}
    for dtype in (jnp.float32, jnp.float16, jnp.bfloat16):
        key = jax.random.key(1)
        x = jax.random.normal(key, (16, 64, 56, 56)).astype(dtype)
        w = (jax.random.normal(key, (128, 64, 3, 3)) * 0.05).astype(dtype)
        convolve = jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"))
        gradient = jax.jit(jax.grad(lambda x, w: convolve(x, w).astype(jnp.float32).sum(), argnums=(0, 1)))
        values = [convolve(x, w), *gradient(x, w)]
        found[f"convolution and gradient, {jnp.dtype(dtype).name}"] = digest(*(numpy.asarray(v).tobytes() for v in values))
    times = []
    for index in range(330):
        start = time.perf_counter()
        jax.block_until_ready(gradient(x, w))
        times.append(time.perf_counter() - start)
    return found, statistics.median(times[30:]) * 1e3


if len(sys.argv) > 2 and sys.argv[1] == "--worker":
    found, step = {"torch": with_torch, "jax": with_jax}[sys.argv[2]]()
    print(json.dumps({"found": found, "step": step}))
    sys.exit()

drop_in = os.path.abspath(sys.argv[1])
site = sysconfig.get_paths()["purelib"]
shim = glob.glob(site + "/nvidia/cudnn/lib/libcudnn.so.9")[0]
kept = shim + ".nvidia"
clean = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}
clean |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}
# A directory that only contains the drop-in.
directory = "/tmp/drop-in"
os.makedirs(directory, exist_ok=True)
shutil.copy(drop_in, directory + "/libcudnn.so.9")
RUNS = {
    "NVIDIA's shim": {},
    "NVIDIA's shim, once more": {},
    "ours, LD_PRELOAD": {"LD_PRELOAD": directory + "/libcudnn.so.9"},
    "ours, in place of the file": {},
}


class Replaced:
    """Replaces the file of NVIDIA's shim inside a `with` block."""

    def __enter__(self):
        os.rename(shim, kept)
        shutil.copy(drop_in, shim)

    def __exit__(self, *_):
        os.replace(kept, shim)


def step_of(framework, way):
    command = [sys.executable, os.path.abspath(__file__), "--worker", framework]
    output = subprocess.run(command, env=clean | RUNS[way], capture_output=True, text=True)
    if output.returncode != 0:
        sys.exit(f"{way}, {framework} ended with {output.returncode}:\n{output.stderr[-3000:]}")
    return json.loads(output.stdout.splitlines()[-1])["step"]


print("Medians, the ways in turn; the ratio is to NVIDIA's shim.\n")
print("| | NVIDIA's shim | " + " | ratio | ".join(list(RUNS)[1:]) + " | ratio |\n|" + " --- |" * 8)


def table(name, measure, rounds):
    times = {way: [] for way in RUNS}
    for _ in range(rounds):
        for way in RUNS:
            with Replaced() if "in place" in way else contextlib.nullcontext():
                times[way].append(measure(way))
    first, *others = (statistics.median(times[way]) for way in RUNS)
    print(f"| {name} | {first:.3f} ms" + "".join(f" | {other:.3f} ms | {other / first:.4f}" for other in others) + " |", flush=True)


def imported(framework):
    def measure(way):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {framework}"], env=clean | RUNS[way], check=True)
        return (time.perf_counter() - start) * 1e3
    return measure


table("a training step of PyTorch, 200 steps in each of 9 processes", lambda way: step_of("torch", way), 9)
table("convolution's gradient in JAX, 300 times in each of 5 processes", lambda way: step_of("jax", way), 5)
table("import torch, 15 processes each", imported("torch"), 15)
table("import jax, 15 processes each", imported("jax"), 15)

#!/usr/bin/env python3
"""Captures the work of PyTorch and JAX on a GPU, and shows what it costs.

    capture-h100.py DROP_IN DIRECTORY     writes DIRECTORY/PROGRAM.cudnncap, prints Markdown

Needs libcudnn_layers.so next to DROP_IN, and a Python with PyTorch and JAX.
"""

import collections
import hashlib
import json
import os
import subprocess
import sys
import time


def resnet50(torch):
    """Returns ResNet-50, because torchvision may be missing."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, wide, narrow, stride):
            super().__init__()
            layers = []
            for inputs, outputs, size, step in ((wide, narrow, 1, 1), (narrow, narrow, 3, stride), (narrow, 4 * narrow, 1, 1)):
                layers += [nn.Conv2d(inputs, outputs, size, step, size // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            self.main = nn.Sequential(*layers[:-1])
            is_same = stride == 1 and wide == 4 * narrow
            self.side = nn.Identity() if is_same else nn.Sequential(
                nn.Conv2d(wide, 4 * narrow, 1, stride, bias=False), nn.BatchNorm2d(4 * narrow))

        def forward(self, x):
            return torch.relu(self.main(x) + self.side(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    wide = 64
    for narrow, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            layers.append(Bottleneck(wide, narrow, stride if index == 0 else 1))
            wide = 4 * narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 1000))


def train(torch, net, x, steps=0):
    """Trains for 3 steps and prints a digest of the weights. With `steps`, also prints the median time of that many."""
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    net = net.cuda().to(x.dtype).to(memory_format=torch.channels_last if x.dim() == 4 else torch.preserve_format)
    optimizer = torch.optim.SGD(net.parameters(), 1e-4)

    def step():
        optimizer.zero_grad()
        net(x).float().square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    for _ in range(3):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    weights = b"".join(p.detach().float().cpu().numpy().tobytes() for p in net.parameters())
    median = sorted(times)[steps // 2] * 1e3 if times else 0
    print(f"{hashlib.sha256(weights).hexdigest()[:16]} {median:.3f}")


def resnet(steps=0):
    import torch

    torch.manual_seed(1)
    x = torch.randn(32, 3, 224, 224, device="cuda", dtype=torch.half).contiguous(memory_format=torch.channels_last)
    train(torch, resnet50(torch), x, steps)


def attention():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(1)
    total = 0.0
    for causal in (False, True):
        q, k, v = (torch.randn(4, 8, 512, 64, device="cuda", dtype=torch.half, requires_grad=True) for _ in range(3))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        y.float().square().mean().backward()
        total += y.float().sum().item() + q.grad.float().sum().item()
    print(f"{total} 0")


def convolution_3d():
    import torch

    torch.manual_seed(1)
    total = 0.0
    for dtype in (torch.bfloat16, torch.float32, torch.half):
        torch.backends.cudnn.allow_tf32 = True
        for channels, size, kernel in ((16, 16, 3), (64, 32, 3), (32, 24, 5)):
            x = torch.randn(2, channels, 8, size, size, device="cuda", dtype=dtype, requires_grad=True)
            net = torch.nn.Conv3d(channels, channels, kernel, padding=kernel // 2).cuda().to(dtype)
            net(x).float().square().mean().backward()
            total += x.grad.float().sum().item()
    print(f"{total} 0")


def lstm():
    import torch

    torch.manual_seed(1)
    net = torch.nn.LSTM(64, 128, num_layers=2).cuda()
    y, _ = net(torch.randn(10, 8, 64, device="cuda"))
    y.square().mean().backward()
    print(f"{y.sum().item()} 0")


def jax_program():
    import jax
    import jax.numpy as jnp

    q, k, v = (jax.random.normal(jax.random.key(i), (4, 512, 8, 64), dtype="bfloat16") for i in range(3))
    attend = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, implementation="cudnn").astype("float32").sum()
    total = float(sum(jnp.sum(gradient.astype("float32")) for gradient in jax.jit(jax.grad(attend, argnums=(0, 1, 2)))(q, k, v)))
    x, w = jax.random.normal(jax.random.key(3), (8, 32, 32, 32)), jax.random.normal(jax.random.key(4), (32, 32, 3, 3))
    convolve = lambda x, w: jnp.square(jax.lax.conv(x, w, (1, 1), "SAME")).sum()
    total += float(sum(jnp.sum(gradient) for gradient in jax.jit(jax.grad(convolve, argnums=(0, 1)))(x, w)))
    print(f"{total} 0")


PROGRAMS = {program.__name__: program for program in (resnet, attention, convolution_3d, lstm, jax_program)}


def run(drop_in, program, capture=None, steps=0):
    """Returns the two words that the program prints."""
    environment = {
        **os.environ,
        "LD_PRELOAD": drop_in,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if capture:
        environment |= {"CUDNN_LAYERS": "capture", "CUDNN_CAPTURE": capture}
    command = [sys.executable, os.path.abspath(__file__), "--child", program, *([str(steps)] if steps else [])]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return ended.stdout.split() if ended.returncode == 0 else [f"exit status {ended.returncode}: {ended.stderr[-300:]}", "0"]


def main():
    if sys.argv[1:2] == ["--child"]:
        return PROGRAMS[sys.argv[2]](*map(int, sys.argv[3:]))
    drop_in, directory = map(os.path.abspath, sys.argv[1:3])
    print("| program | equal results | graphs | bytes | bytes per graph | records |\n| --- | --- | --- | --- | --- | --- |")
    for program in PROGRAMS:
        file = os.path.join(directory, f"{program}.cudnncap")
        without, captured = run(drop_in, program), run(drop_in, program, file)
        counts, size = collections.Counter(), 0
        if os.path.exists(file):
            size = os.path.getsize(file)
            counts = collections.Counter(json.loads(line)["record"] for line in open(file))
        graphs = counts["graph"]
        equal = "yes" if without == captured else f"no: {without} {captured}"
        print(f"| {program} | {equal} | {graphs} | {size} | {size // max(graphs, 1)} | {dict(counts)} |", flush=True)
    print("\n| ResNet-50, a step, ms | none | `capture` | ratio |\n| --- | --- | --- | --- |")
    for turn in range(5):
        files = [None, os.path.join(directory, f"cost{turn}.cudnncap")]
        order = files if turn % 2 == 0 else files[::-1]
        times = {file: float(run(drop_in, "resnet", file, 100)[1]) for file in order}
        none, captured = times[None], times[files[1]]
        print(f"| {turn + 1} | {none:.2f} | {captured:.2f} | {captured / max(none, 1e-9):.4f} |", flush=True)


main()

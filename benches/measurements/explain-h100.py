#!/usr/bin/env python3
"""Shows what the layer `explain` reports about PyTorch on a GPU, and what it costs.

    explain-h100.py DROP_IN     prints Markdown

Needs libcudnn_layers.so next to DROP_IN, and a Python with PyTorch. Hiding NVRTC needs the right to mount.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time


def attention_without_engine():
    """Calls cuDNN's attention without PyTorch's checks, which reject these cases before cuDNN is called."""
    import torch

    attend = torch.ops.aten._scaled_dot_product_cudnn_attention
    make = lambda *shape, dtype=torch.half: torch.randn(*shape, device="cuda", dtype=dtype)
    cases = {
        "64 and 512 values per head": (make(2, 4, 512, 64), make(2, 4, 512, 64), make(2, 4, 512, 512)),
        "512 values per head": (make(2, 4, 512, 512), make(2, 4, 512, 512), make(2, 4, 512, 512)),
        "70 values per head": (make(2, 4, 512, 70), make(2, 4, 512, 70), make(2, 4, 512, 70)),
        "half and bfloat16": (make(2, 4, 512, 64), make(2, 4, 512, 64, dtype=torch.bfloat16), make(2, 4, 512, 64)),
    }
    for name, (q, k, v) in cases.items():
        try:
            attend(q, k, v, None, False)
            torch.cuda.synchronize()
            print(f"{name}: computed", flush=True)
        except RuntimeError as error:
            print(f"{name}: {str(error).splitlines()[0]}", flush=True)


def convolution_without_memory():
    import torch

    x = torch.randn(8, 64, 32, 64, 64, device="cuda", dtype=torch.half)
    w = torch.randn(64, 64, 3, 3, 3, device="cuda", dtype=torch.half)
    torch.cuda.synchronize()
    y = torch.empty_like(x)
    # Leaves a block of the output's size in PyTorch's cache, and a few MiB for the driver.
    rest = torch.cuda.mem_get_info()[0] - (48 << 20)
    filler = torch.empty(rest, dtype=torch.uint8, device="cuda")
    del y
    try:
        torch.nn.functional.conv3d(x, w, padding=1)
        print("computed")
    except RuntimeError as error:
        print(str(error).splitlines()[0])
    del filler


def attention():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(4, 8, 512, 64, device="cuda", dtype=torch.half) for _ in range(3))
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            print(torch.nn.functional.scaled_dot_product_attention(q, k, v).float().sum().item())
    except RuntimeError as error:
        print(str(error).splitlines()[0])


def training():
    """Trains a small network with convolutions and attention. Prints a digest of the weights and the time of a step."""
    import hashlib

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True, warn_only=True)
    convolutions = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, stride=2, padding=1),
    ).cuda().half()
    optimizer = torch.optim.SGD(convolutions.parameters(), 1e-4)
    x = torch.randn(16, 3, 32, 32, device="cuda", dtype=torch.half)

    def step():
        y = convolutions(x).flatten(2).transpose(1, 2).contiguous().view(16, 256, 2, 64).transpose(1, 2)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(y, y, y)
        loss = out.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    start = time.monotonic()
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    first = time.monotonic() - start
    times = []
    for _ in range(5):
        start = time.monotonic()
        for _ in range(200):
            step()
        torch.cuda.synchronize()
        times.append((time.monotonic() - start) / 200)
    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in convolutions.parameters())).hexdigest()
    print(f"{digest[:16]} {first:.3f} {sorted(times)[2] * 1e6:.1f}")


def jax_attention():
    import jax

    q, k, v = (jax.random.normal(jax.random.key(i), (4, 512, 8, 64), dtype="bfloat16") for i in range(3))
    attend = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, implementation="cudnn")
    print(float(jax.jit(attend)(q, k, v).astype("float32").sum()))


PROGRAMS = {p.__name__: p for p in (attention_without_engine, convolution_without_memory, attention, training, jax_attention)}


def run(drop_in, program, layers, explain="failures", before=(), blocked=()):
    """Returns the output of the program and the reports."""
    with tempfile.TemporaryDirectory() as directory:
        reports = os.path.join(directory, "reports.txt")
        environment = {
            **os.environ,
            "LD_PRELOAD": drop_in,
            "CUDNN_LAYERS": layers,
            "CUDNN_EXPLAIN": explain,
            "CUDNN_EXPLAIN_OUTPUT": reports,
            "CUDNN_VALIDATE": reports,
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        if blocked:
            environment["CUDNN_ERRATA"] = os.path.join(directory, "rules.json")
            rule = {"name": "needs-no-workspace", "reason": "a test", "operations": ["conv_fwd"], "engines": list(blocked)}
            with open(environment["CUDNN_ERRATA"], "w") as file:
                json.dump({"errata": 1, "rules": [rule]}, file)
        command = [*before, sys.executable, os.path.abspath(__file__), "--child", program]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
        text = open(reports, errors="replace").read() if os.path.exists(reports) else ""
        output = ended.stdout if ended.returncode == 0 else f"exit status {ended.returncode}: {ended.stderr[-800:]}"
        return output.strip(), text.strip()


def without_nvrtc():
    """Returns a command that starts a program in a namespace in which NVRTC is hidden."""
    import torch

    root = os.path.dirname(os.path.dirname(torch.__file__))
    files = glob.glob(f"{root}/nvidia/**/libnvrtc.so*", recursive=True) + glob.glob("/usr/local/cuda*/**/libnvrtc.so*", recursive=True)
    hide = "; ".join(f"mount --bind /dev/null {file}" for file in sorted(set(map(os.path.realpath, files))))
    return ("unshare", "--mount", "sh", "-c", f'{hide or "true"}; exec "$@"', "sh")


def show(title, output, reports):
    print(f"## {title}\n\n```text\n{output}\n```\n\n```text\n{reports or 'no report'}\n```\n", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        return PROGRAMS[sys.argv[2]]()
    drop_in = os.path.abspath(sys.argv[1])
    only = sys.argv[2:]
    if not only or "failures" in only:
        show("PyTorch, attention without an engine", *run(drop_in, "attention_without_engine", "explain"))
        blocked = []
        for _ in range(12):
            # Blocks the engines that need no workspace, one after the other.
            layers = "explain,errata" if blocked else "explain"
            output, reports = run(drop_in, "convolution_without_memory", layers, "used", blocked=blocked)
            ran = [int(engine) for engine in re.findall(r"used: conv_fwd.*; engine (\d+)", reports)]
            if not ran:
                break
            blocked += ran
        show(f"PyTorch, convolution without memory, without engines {blocked}", output, reports)
        show("PyTorch, attention without NVRTC", *run(drop_in, "attention", "explain", before=without_nvrtc()))
    if not only or "used" in only:
        for program in ("training", "jax_attention"):
            show(f"{program}, used plans", *run(drop_in, program, "explain", "used"))
    if not only or "cost" in only:
        print("## Cost\n")
        print("| layers | digest | first 20 steps, s | step, µs | reports |\n| --- | --- | --- | --- | --- |")
        for _ in range(3):
            for layers, explain in (("", ""), ("explain", "failures"), ("explain", "used"), ("validate", "")):
                output, reports = run(drop_in, "training", layers, explain)
                cells = " | ".join(output.split()) if output.count(" ") == 2 else output
                print(f"| {layers} {explain} | {cells} | {reports.count('cudnn-explain')} |", flush=True)


main()

#!/usr/bin/env python3
"""Shows what the layer `explain` reports about PyTorch on a GPU.

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


PROGRAMS = {p.__name__: p for p in (attention_without_engine, convolution_without_memory, attention)}


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


main()

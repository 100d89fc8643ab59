#!/usr/bin/env python3
"""Captures PyTorch programs that meet known bugs of cuDNN, for a comparison of releases by `cudnn-lab replay`.

    bugs-h100.py DROP_IN DIRECTORY     writes DIRECTORY/BUG.cudnncap, prints Markdown

Needs libcudnn_layers.so next to DROP_IN, a Python with PyTorch, and a GPU with 40 GB. CUDNN_LOADER_DIR selects the cuDNN.
"""

import math
import os
import subprocess
import sys


def convolution_3d(dtype="bfloat16"):
    """Compares a convolution of more than 2 GiB with a 2-d convolution of every depth (pytorch issue 163539)."""
    import torch

    torch.manual_seed(42)
    x = torch.randn(1, 16, 124, 1282, 722, device="cuda", dtype=getattr(torch, dtype))
    w = ((torch.rand(16, 16, 1, 3, 3, device="cuda") * 2 - 1) / 12).to(x.dtype)
    # PyTorch would not use the affected releases.
    y = torch.ops.aten.cudnn_convolution(x, w, [0] * 3, [1] * 3, [1] * 3, 1, False, False, True)
    expected = lambda depth: torch.nn.functional.conv2d(x[:, :, depth].float(), w[:, :, 0].float())
    wrong = sum((y[:, :, depth].float() - expected(depth)).abs().max().item() > 0.05 for depth in range(124))
    return f"{wrong} of 124 depths are wrong"


def convolution_3d_half():
    return convolution_3d("half")


def depthwise_convolution():
    """A depthwise convolution of more than 2^31 elements (pytorch pull requests 163171 and 168364)."""
    import torch

    torch.manual_seed(0)
    last = {"memory_format": torch.channels_last}
    x = torch.randn(1, 2, 32800, 32800, device="cuda", dtype=torch.half).to(**last)
    w = (torch.rand(2, 1, 3, 3, device="cuda") - 0.5).half().to(**last)
    y = torch.ops.aten.cudnn_convolution(x, w, [1, 1], [1, 1], [1, 1], 2, False, False, True)
    error = 0.0
    for row in range(1, 32799, 2048):
        rows = min(2048, 32799 - row)
        part = x[:, :, row - 1:row + rows + 1].float()
        expected = torch.nn.functional.conv2d(part, w.float(), padding=(0, 1), groups=2)
        error = max(error, (y[:, :, row:row + rows].float() - expected).abs().max().item())
    return f"largest error {error:.4f}"


def attention(queries, keys, heads, with_mask, scores):
    """The gradients of an attention whose scores are all very negative."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    draw = lambda length: torch.randn(1, heads, length, 64, device="cuda", dtype=torch.bfloat16)
    q, k, v = draw(queries) * 0.1, draw(keys) * 0.1, draw(keys)
    q[..., 0], k[..., 0] = 1.0, scores * math.sqrt(64)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril()[None, None] if with_mask else None
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    y.backward(torch.randn_like(y))
    count = lambda tensor: (~torch.isfinite(tensor.grad)).sum().item()
    return f"not finite: {count(q)} elements of dQ, {count(k)} of dK, {count(v)} of dV"


def attention_with_mask():
    """704 keys are a multiple of 64 and not of 128 (pytorch issue 196678)."""
    return attention(704, 704, 1, True, -120)


def attention_with_one_query():
    """cudnn-frontend issue 1072."""
    return attention(1, 128, 2, False, -128)


BUGS = {
    bug.__name__: bug
    for bug in (convolution_3d, convolution_3d_half, depthwise_convolution, attention_with_mask, attention_with_one_query)
}


def main():
    if sys.argv[1:2] == ["--child"]:
        import torch

        result = BUGS[sys.argv[2]]()
        print("| ".join(("", sys.argv[2] + " ", ".".join(map(str, torch._C._cudnn.getRuntimeVersion())) + " ", result + " |")))
        return
    drop_in, directory = map(os.path.abspath, sys.argv[1:3])
    os.makedirs(directory, exist_ok=True)
    print("| program | cuDNN | result |\n| --- | --- | --- |")
    for bug in BUGS:
        environment = {
            **os.environ,
            "LD_PRELOAD": drop_in,
            "CUDNN_LAYERS": "capture",
            "CUDNN_CAPTURE": os.path.join(directory, f"{bug}.cudnncap"),
            # These bugs depend on the values. Only the first execution of each graph is stored.
            "CUDNN_CAPTURE_DATA": "all" if bug.startswith("attention") else "",
            "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK": "1",
        }
        command = [sys.executable, os.path.abspath(__file__), "--child", bug]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True)
        print(ended.stdout.strip() if ended.returncode == 0 else f"| {bug} | | {ended.stderr[-300:]} |", flush=True)


main()

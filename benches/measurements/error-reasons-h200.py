#!/usr/bin/env python3
"""Compares PyTorch's messages about cuDNN failures without and with CUDNN_LOADER_VERBOSE_ERRORS=1.

    error-reasons-h200.py DROP_IN       prints a Markdown table
    error-reasons-h200.py --one NAME    provokes one failure, in PyTorch's Python

Every failure is provoked in three processes: with NVIDIA's shim, with the drop-in, and with the drop-in and the variable.
"""

import ctypes
import os
import subprocess
import sys
import warnings

PYTHON = "/opt/torch/.venv/bin/python"


def torch():
    warnings.simplefilter("ignore")
    import torch as module

    return module


def batch_norm_65535():
    """evaluate a batch norm with a batch above 65,535"""
    t = torch()
    w = t.ones(2, device="cuda")
    t.cudnn_batch_norm(t.zeros(70000, 2, 2, device="cuda"), w, w, w.clone(), w.clone(), False, 0.1, 1e-5)


def kernel_failed_before():
    """convolution after a kernel that failed (index out of bounds)"""
    t = torch()
    x, w = t.zeros(1, 1, 4, 4, device="cuda"), t.zeros(1, 1, 3, 3, device="cuda")
    t.nn.functional.conv2d(x, w)
    try:
        t.zeros(4, device="cuda")[t.tensor([1 << 30], device="cuda")]
        t.cuda.synchronize()
    except Exception:
        pass
    t.nn.functional.conv2d(x, w)


def memory_full():
    """first convolution when other programs' memory leaves 4 MiB"""
    t = torch()
    x, w = t.zeros(1, 1, 4, 4, device="cuda"), t.zeros(1, 1, 3, 3, device="cuda")
    t.empty(64 << 20, dtype=t.uint8, device="cuda")
    fill_memory()
    t.nn.functional.conv2d(x, w)


def fill_memory():
    with open("/proc/self/maps") as maps:
        runtime = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart.so" in line))
    p, size = ctypes.c_void_p(), 1 << 30
    while size >= 1 << 20:
        if runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)):
            runtime.cudaGetLastError()
            size //= 2


def attention_head_dim():
    """attention with a head dimension of 300"""
    t = torch()
    q = t.zeros(1, 2, 64, 300, device="cuda", dtype=t.half)
    t._scaled_dot_product_cudnn_attention(q, q, q, None, False, 0.0, False, False)


def jax_memory_full():
    """JAX: first convolution when other programs' memory leaves 4 MiB"""
    import jax

    x = jax.numpy.zeros((1, 4, 4, 1))
    w = jax.numpy.zeros((3, 3, 1, 1))
    x.block_until_ready()
    fill_memory()
    jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")).block_until_ready()


JAX = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
FAILURES = [
    (batch_norm_65535, {}),
    (kernel_failed_before, {}),
    (memory_full, {}),
    (attention_head_dim, {}),
    (jax_memory_full, JAX),
]


def provoke(name):
    try:
        globals()[name]()
        if not name.startswith("jax"):
            torch().cuda.synchronize()
        print("no failure")
    except Exception as error:
        print(f"{type(error).__name__}: {first_line(str(error))[:500]}")


def first_line(text):
    """The line that names a status, or the first."""
    lines = text.splitlines() or [""]
    return next((line for line in lines if "CUDNN_STATUS" in line), lines[0])


def run(python, name, environment):
    command = [python, os.path.abspath(__file__), "--one", name]
    output = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    lines = output.stdout.strip().splitlines()
    return lines[-1] if lines else f"ended with {output.returncode}"


def main(drop_in):
    python = os.environ.get("PYTHON", PYTHON)
    preload = {"LD_PRELOAD": os.path.abspath(drop_in)}
    print("| failure | PyTorch prints | with the variable |\n| --- | --- | --- |")
    for function, environment in FAILURES:
        shim, without, verbose = (
            run(python, function.__name__, {**environment, **added})
            for added in ({}, preload, {**preload, "CUDNN_LOADER_VERBOSE_ERRORS": "1"})
        )
        if shim != without:
            shim = f"NVIDIA's shim: {shim}; drop-in: {without}"
        cells = (text.replace("|", "\\|") for text in (function.__doc__, f"`{shim}`", "the same" if verbose == without else f"`{verbose}`"))
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        provoke(sys.argv[2])
    else:
        main(sys.argv[1])

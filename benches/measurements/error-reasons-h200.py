#!/usr/bin/env python3
"""Compares PyTorch's messages about cuDNN failures without and with CUDNN_LOADER_VERBOSE_ERRORS=1.

    error-reasons-h200.py DROP_IN [NAME...]    prints a Markdown table of all failures, or only of these
    error-reasons-h200.py --one NAME           provokes one failure, in PyTorch's Python

Every failure is provoked in three processes: with NVIDIA's shim, with the drop-in, and with the drop-in and the variable.
"""

import ctypes
import os
import subprocess
import sys
import warnings

PYTHON = "/opt/torch/.venv/bin/python"
V7 = {"TORCH_CUDNN_V8_API_DISABLED": "1"}


def torch():
    warnings.simplefilter("ignore")
    import torch as module

    return module


def batch_norm_65535():
    """evaluate a batch norm with a batch above 65,535"""
    t = torch()
    w = t.ones(2, device="cuda")
    t.cudnn_batch_norm(t.zeros(70000, 2, 2, device="cuda"), w, w, w.clone(), w.clone(), False, 0.1, 1e-5)


def batch_norm_training():
    """train a batch norm with a batch of 1,761,604"""
    t = torch()
    w = t.ones(2, device="cuda")
    t.cudnn_batch_norm(t.zeros(880802 * 2, 2, device="cuda"), w, w, w.clone(), w.clone(), True, 0.1, 1e-5)


def tensor_of_2_31():
    """batch norm of a tensor with more than 2^31 elements"""
    t = torch()
    w = t.ones(2, device="cuda")
    x = t.empty(2, 2, 1 << 15, (1 << 14) + 8, device="cuda", dtype=t.half)
    t.cudnn_batch_norm(x, w, w, w.clone(), w.clone(), True, 0.1, 1e-5)


def rnn_without_layers():
    """RNN with 0 layers"""
    t = torch()
    w = [t.zeros(64, 16, device="cuda") for _ in range(2)] + [t.zeros(64, device="cuda") for _ in range(2)]
    h = t.zeros(1, 3, 16, device="cuda")
    t._cudnn_rnn(t.zeros(5, 3, 16, device="cuda"), w, 4, None, h, h, 2, 16, 0, 0, False, 0.0, True, False, [], None)


def rnn_without_hidden():
    """RNN with a hidden size of 0"""
    t = torch()
    w = [t.zeros(64, 16, device="cuda") for _ in range(2)] + [t.zeros(64, device="cuda") for _ in range(2)]
    h = t.zeros(1, 3, 16, device="cuda")
    t._cudnn_rnn(t.zeros(5, 3, 16, device="cuda"), w, 4, None, h, h, 2, 0, 0, 1, False, 0.0, True, False, [], None)


def rnn_long():
    """RNN over 131,072 steps"""
    t = torch()
    t.nn.LSTM(8, 8, 1).cuda()(t.zeros(1 << 17, 1, 8, device="cuda"))


def ctc_long():
    """CTC loss with labels of 300"""
    t = torch()
    p = t.zeros(600, 2, 20, device="cuda").log_softmax(2)
    t._cudnn_ctc_loss(p, t.ones(600, dtype=t.int), [600] * 2, [300] * 2, 0, True, False)


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
    runtime = ctypes.CDLL("libcudart.so.13") if os.path.exists("libcudart.so.13") else ctypes.CDLL(cudart())
    p, size = ctypes.c_void_p(), 1 << 30
    while size >= 1 << 20:
        if runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)):
            runtime.cudaGetLastError()
            size //= 2
    t.nn.functional.conv2d(x, w)


def cudart():
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "libcudart.so" in line)


def fused_convolution():
    """convolution with ReLU and a bias of another shape, by cuDNN's older API"""
    t = torch()
    t.cudnn_convolution_relu(t.zeros(1, 3, 8, 8, device="cuda"), t.zeros(4, 3, 3, 3, device="cuda"), t.zeros(7, device="cuda"), (1, 1), (0, 0), (1, 1), 1)


def attention_head_dim():
    """attention with a head dimension of 300"""
    t = torch()
    q = t.zeros(1, 2, 64, 300, device="cuda", dtype=t.half)
    t._scaled_dot_product_cudnn_attention(q, q, q, None, False, 0.0, False, False)


def no_engine():
    """a fused convolution that no engine takes"""
    t = torch()
    x, w = t.zeros(1, 3, 8, 8, device="cuda"), t.zeros(4, 3, 3, 3, device="cuda")
    t.cudnn_convolution_add_relu(x, w, t.zeros(1, 7, 5, 5, device="cuda"), 1.0, None, (1, 1), (0, 0), (1, 1), 1)


def affine_grid_of_a_large_batch():
    """an affine grid for a batch of 70,000"""
    t = torch()
    t.cudnn_affine_grid_generator(t.zeros(70000, 2, 3, device="cuda"), 70000, 4, 4, 4)


def handle_of_another_device():
    """a handle of device 0 used while device 1 is current"""
    t = torch()
    cudnn = ctypes.CDLL("libcudnn.so.9")
    cudnn.cudnnGetErrorString.restype = ctypes.c_char_p
    handle, tensor = ctypes.c_void_p(), ctypes.c_void_p()
    t.cuda.set_device(0)
    t.zeros(1, device="cuda:0")
    cudnn.cudnnCreate(ctypes.byref(handle))
    cudnn.cudnnCreateTensorDescriptor(ctypes.byref(tensor))
    cudnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 1, 1, 1, 1024)
    t.cuda.set_device(1)
    x = t.zeros(1024, device="cuda:1")
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    status = cudnn.cudnnSoftmaxForward(
        handle, 0, 0, ctypes.byref(one), tensor, ctypes.c_void_p(x.data_ptr()), ctypes.byref(zero), tensor, ctypes.c_void_p(x.data_ptr())
    )
    if status:
        raise RuntimeError(cudnn.cudnnGetErrorString(status).decode())


def convolution_on_two_devices():
    """convolution whose weight is on another device"""
    t = torch()
    x, w = t.zeros(1, 1, 4, 4, device="cuda:0"), t.zeros(1, 1, 3, 3, device="cuda:1")
    t.cudnn_convolution(x, w, (0, 0), (1, 1), (1, 1), 1, False, False, False)


def rnn_on_two_devices():
    """RNN whose hidden state is on another device"""
    t = torch()
    t.nn.LSTM(8, 8, 1).cuda(0)(t.zeros(3, 1, 8, device="cuda:0"), tuple(t.zeros(1, 1, 8, device="cuda:1") for _ in range(2)))


def jax_memory_full():
    """JAX: first convolution when other programs' memory leaves 4 MiB"""
    import jax

    x = jax.numpy.zeros((1, 4, 4, 1))
    w = jax.numpy.zeros((3, 3, 1, 1))
    x.block_until_ready()
    runtime, p, size = ctypes.CDLL(cudart()), ctypes.c_void_p(), 1 << 30
    while size >= 1 << 20:
        if runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)):
            runtime.cudaGetLastError()
            size //= 2
    convolve(x, w).block_until_ready()


def jax_attention():
    """JAX: attention by cuDNN with a head dimension of 300"""
    import jax

    q = jax.numpy.zeros((1, 64, 2, 300), jax.numpy.float16)
    jax.nn.dot_product_attention(q, q, q, implementation="cudnn").block_until_ready()


def jax_large_convolution():
    """JAX: convolution of a tensor with more than 2^31 elements"""
    import jax

    x = jax.numpy.zeros((2, 1 << 15, (1 << 15) + 8, 2), jax.numpy.float16)
    convolve(x, jax.numpy.zeros((3, 3, 2, 2), jax.numpy.float16)).block_until_ready()


def convolve(x, w):
    import jax

    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


JAX = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
FAILURES = [
    (batch_norm_65535, {}),
    (batch_norm_training, {}),
    (tensor_of_2_31, {}),
    (rnn_without_layers, {}),
    (rnn_without_hidden, {}),
    (rnn_long, {}),
    (ctc_long, {}),
    (kernel_failed_before, {}),
    (memory_full, {}),
    (fused_convolution, V7),
    (affine_grid_of_a_large_batch, {}),
    (attention_head_dim, {}),
    (no_engine, {}),
    (handle_of_another_device, {}),
    (convolution_on_two_devices, {}),
    (rnn_on_two_devices, {}),
    (jax_memory_full, JAX),
    (jax_attention, JAX),
    (jax_large_convolution, JAX),
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


def main(drop_in, *names):
    python = os.environ.get("PYTHON", PYTHON)
    preload = {"LD_PRELOAD": os.path.abspath(drop_in)}
    print("| failure | PyTorch prints | with the variable |\n| --- | --- | --- |")
    for function, environment in FAILURES:
        if names and function.__name__ not in names:
            continue
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
        main(*sys.argv[1:])

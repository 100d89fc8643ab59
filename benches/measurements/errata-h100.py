#!/usr/bin/env python3
"""Shows what PyTorch and JAX do on a GPU when the layer `errata` blocks the engine that they prefer.

    errata-h100.py DROP_IN     prints a table in Markdown

Needs libcudnn_layers.so next to DROP_IN, and a Python with PyTorch and JAX. Each
program computes the same function three times: without rules, with a rule that blocks the engine of the first run, and with
a rule that blocks all plans of the operation. The layer `trace`, outside of `errata`, records the engines that ran.
"""

import json
import os
import re
import subprocess
import sys
import tempfile


def torch_convolution():
    import torch

    generator = torch.Generator("cuda").manual_seed(7)
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.half, generator=generator)
    x, w = make(8, 64, 56, 56), make(64, 64, 3, 3)
    return torch.nn.functional.conv2d(x, w, padding=1)


def torch_attention():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    generator = torch.Generator("cuda").manual_seed(7)
    make = lambda: torch.randn(4, 8, 512, 64, device="cuda", dtype=torch.half, generator=generator)
    q, k, v = make(), make(), make()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def torch_attention_any():
    """PyTorch chooses the backend; cuDNN comes first."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    generator = torch.Generator("cuda").manual_seed(7)
    make = lambda: torch.randn(4, 8, 512, 64, device="cuda", dtype=torch.half, generator=generator)
    q, k, v = make(), make(), make()
    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel(order, set_priority=True):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def jax_convolution():
    import jax

    key = jax.random.key(7)
    x = jax.random.normal(key, (8, 56, 56, 64), dtype="float16")
    w = jax.random.normal(key, (3, 3, 64, 64), dtype="float16")
    convolve = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.jit(convolve)(x, w)


def jax_attention():
    import jax

    key = jax.random.key(7)
    q, k, v = (jax.random.normal(jax.random.fold_in(key, i), (4, 512, 8, 64), dtype="bfloat16") for i in range(3))
    attend = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, implementation="cudnn")
    return jax.jit(attend)(q, k, v)


PROGRAMS = {
    "PyTorch, 2-d convolution in half": (torch_convolution, "conv_fwd"),
    "PyTorch, attention with `CUDNN_ATTENTION`": (torch_attention, "sdpa_fwd"),
    "PyTorch, attention with other backends allowed": (torch_attention_any, "sdpa_fwd"),
    "JAX, 2-d convolution in half": (jax_convolution, "conv_fwd"),
    "JAX, cuDNN attention": (jax_attention, "matmul"),
}


def child(name):
    """Runs a program and writes the values as float32 to the file in ERRATA_VALUES."""
    import numpy

    values = PROGRAMS[name][0]()
    values = values.float().cpu().numpy() if hasattr(values, "cpu") else numpy.asarray(values.astype("float32"))
    numpy.save(os.environ["ERRATA_VALUES"], values)


def run(name, drop_in, directory, rule):
    """Returns the values, the engines that ran, the number of blocked plans, and the end of stderr."""
    values, trace = os.path.join(directory, "values.npy"), os.path.join(directory, "trace.txt")
    for file in (values, trace):
        if os.path.exists(file):
            os.remove(file)
    environment = {
        **os.environ,
        "LD_PRELOAD": drop_in,
        "CUDNN_LAYERS": "trace,errata" if rule else "trace",
        "CUDNN_TRACE_LINES": trace,
        "ERRATA_VALUES": values,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_FLAGS": "--xla_gpu_autotune_level=4",
    }
    if rule:
        environment["CUDNN_ERRATA"] = os.path.join(directory, "rules.json")
        with open(environment["CUDNN_ERRATA"], "w") as file:
            json.dump({"errata": 1, "rules": [{"name": "preferred", "reason": "a test", **rule}]}, file)
    ended = subprocess.run(
        [sys.executable, __file__, "--child", name], env=environment, capture_output=True, text=True, timeout=300
    )
    text = open(trace, errors="replace").read() if os.path.exists(trace) else ""
    executions = [line for line in text.splitlines() if "cudnnBackendExecute" in line]
    engines = []
    for line in executions:
        found = re.search(r"; engine (\d+)", line)
        if found and int(found[1]) not in engines:
            engines.append(int(found[1]))
    # JAX serializes a plan after it has built it, and executes the restored plan.
    for line in text.splitlines() if not engines else []:
        found = re.search(r"cudnnBackendFinalize.*_SUCCESS.*; engine (\d+)", line)
        if found and int(found[1]) not in engines:
            engines.append(int(found[1]))
    finalized = [line for line in text.splitlines() if "cudnnBackendFinalize" in line and "NOT_SUPPORTED" in line]
    result = None
    if ended.returncode == 0 and os.path.exists(values):
        import numpy

        result = numpy.load(values)
    last = [line.strip() for line in ended.stderr.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return result, engines, len(finalized), last[-1][:200] if last else ""


def describe(result, reference, engines, refused, message):
    if result is None:
        return f"fails after {refused} refused: `{message}`"
    error = float(abs(result - reference).max())
    ran = f"engine {', '.join(map(str, engines))}" if engines else "without cuDNN's backend API"
    return f"{ran}; {refused} refused; difference {error:.2g}"


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2])
    drop_in = os.path.abspath(sys.argv[1])
    print("| program | without rules | its engines are blocked | all plans are blocked |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory:
        for name, (_, operation) in PROGRAMS.items():
            reference, engines, refused, message = run(name, drop_in, directory, None)
            if reference is None:
                print(f"| {name} | does not run here: `{message}` | | |", flush=True)
                continue
            first = describe(reference, reference, engines, refused, message)
            by_engine = run(name, drop_in, directory, {"operations": [operation], "engines": engines})
            by_operation = run(name, drop_in, directory, {"operations": [operation]})
            second, third = (describe(r, reference, e, n, m) for r, e, n, m in (by_engine, by_operation))
            print(f"| {name} | {first} | {second} | {third} |", flush=True)


main()

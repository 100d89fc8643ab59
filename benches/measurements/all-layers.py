#!/usr/bin/env python3
"""Compares unmodified programs on NVIDIA's shim, on the drop-in, and on the drop-in with all layers, bit by bit.

    all-layers.py LIBRARY [TESTS [MOST [SECONDS]]]     prints Markdown

LIBRARY is the drop-in's libcudnn.so.9, with libcudnn_layers.so next to it. Run this with the Python that has PyTorch and JAX. TESTS
is the directory test/python of NVIDIA's repository cudnn-frontend, whose tests run if its package is installed. MOST is the number
of tests per file, SECONDS the time limit for these tests in each configuration.

Every program runs in a new process. NVIDIA's shim runs twice: only results that are equal in both runs are compared.
"""

import concurrent.futures
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS = "explain,validate,errata,capture,plans,trace"
SHIM = glob.glob(sysconfig.get_paths()["purelib"] + "/nvidia/cudnn/lib/libcudnn.so.9")[0]
WAYS = ("NVIDIA's shim", "NVIDIA's shim, once more", "the drop-in", "all layers, empty store", "all layers, full store")


def random_cases(count=150):
    """Computes random convolutions and attentions with PyTorch, and prints a digest per case."""
    import random

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.backends.cudnn.deterministic = True
    chosen, found = random.Random(7), {}
    for case in range(count):
        torch.manual_seed(case)
        dtype = chosen.choice([torch.half, torch.bfloat16])
        if case % 2:
            shape = (chosen.choice([1, 2, 4]), chosen.choice([1, 4, 8]), 64 * chosen.randint(1, 8), chosen.choice([64, 128]))
            inputs = [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                y = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=chosen.random() < 0.5)
        else:
            dtype = chosen.choice([dtype, torch.float])
            groups, kernel = chosen.choice([1, 2]), chosen.choice([1, 3, 5])
            x = torch.randn(chosen.randint(1, 8), 16 * groups, *[chosen.randint(8, 48)] * 2, device="cuda", dtype=dtype)
            if chosen.random() < 0.5:
                x = x.contiguous(memory_format=torch.channels_last)
            w = torch.randn(16 * chosen.randint(1, 4) * groups, 16, kernel, kernel, device="cuda", dtype=dtype)
            inputs = [x.requires_grad_(), w.requires_grad_()]
            y = torch.nn.functional.conv2d(*inputs, stride=chosen.choice([1, 2]), padding=kernel // 2, groups=groups)
        y.float().square().mean().backward()
        digest = hashlib.sha256()
        for tensor in (y, *(it.grad for it in inputs)):
            digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).cpu().numpy().tobytes())
        found[f"case {case}"] = digest.hexdigest()[:16]
    print(json.dumps({"found": found}))


def compiled():
    """Trains a small network that torch.compile has compiled."""
    import torch

    sys.path.insert(0, HERE)
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3)).cuda().half()
    step = torch.compile(lambda x: net(x).float().square().mean())
    x = torch.randn(4, 8, 32, 32, device="cuda").half()
    for _ in range(3):
        loss = step(x)
        loss.backward()
    print(json.dumps({"found": {"loss": loss.item(), "gradient": net[0].weight.grad.float().sum().item()}}))


def in_script(script, *words):
    return lambda: [sys.executable, os.path.join(HERE, script), *words]


def here(name):
    return lambda: [sys.executable, os.path.abspath(__file__), "--child", name]


CHILDREN = {"random_cases": random_cases, "compiled": compiled}
PROGRAMS = {
    "PyTorch": in_script("drop-in-h200.py", "--worker", "torch"),
    "JAX": in_script("drop-in-h200.py", "--worker", "jax"),
    "150 random convolutions and attentions": here("random_cases"),
    "torch.compile": here("compiled"),
    "ResNet-50, training": in_script("capture-h100.py", "--child", "resnet"),
    "attention": in_script("capture-h100.py", "--child", "attention"),
    "3-d convolutions": in_script("capture-h100.py", "--child", "convolution_3d"),
    "LSTM": in_script("capture-h100.py", "--child", "lstm"),
    "JAX, attention": in_script("capture-h100.py", "--child", "jax_program"),
}


def environment(way, scratch, program):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CUDNN_", "LD_PRELOAD"))}
    clean |= {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    if "layers" in way:
        outputs = os.path.join(scratch, "".join(filter(str.isalnum, program + way)))
        clean |= {
            "CUDNN_LAYERS": LAYERS, "CUDNN_ERRATA": "known", "CUDNN_PLANS_DIR": f"{scratch}/store", "CUDNN_CAPTURE": f"{outputs}.cudnncap",
            "CUDNN_TRACE": f"{outputs}.trace.json", "CUDNN_EXPLAIN_OUTPUT": f"{outputs}.explain", "CUDNN_VALIDATE": f"{outputs}.validate",
        }
    return clean


def results(output):
    """Returns the named results that a program printed."""
    last = output.splitlines()[-1]
    if last.startswith("{"):
        return json.loads(last)["found"]
    return {"digest": last.split()[0]}


def run(way, program, scratch):
    ended = subprocess.run(PROGRAMS[program](), env=environment(way, scratch, program), capture_output=True, text=True, timeout=400)
    if ended.returncode != 0 or not ended.stdout.strip():
        print(f"\n{way}, {program} ended with {ended.returncode}:\n\n```text\n{ended.stderr[-2000:]}\n```\n")
        return {}
    return results(ended.stdout)


def run_frontend(way, tests, most, seconds, scratch):
    """Runs the tests of cudnn-frontend, and returns a digest for each test that executed, and the outcomes."""
    out = os.path.join(scratch, f"frontend-{WAYS.index(way)}.json")
    env = environment(way, scratch, "frontend") | {
        "EXECUTION_DIGESTS": out, "EXECUTION_DIGESTS_MOST": most, "EXECUTION_DIGESTS_SECONDS": seconds,
        "PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]),
    }
    if way != WAYS[0]:
        env |= {"EXECUTION_DIGESTS_LIKE": f"{scratch}/frontend-0.json", "EXECUTION_DIGESTS_SECONDS": "1000"}
    words = ["-q", "--continue-on-collection-errors", "-p", "execution_digests", "-p", "no:cacheprovider", "-m", "L0", "."]
    ended = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tests, env=env, capture_output=True, text=True)
    if not os.path.exists(out):
        print(f"\n{way}: pytest ended with {ended.returncode}\n\n```text\n{ended.stdout[-2000:]}{ended.stderr[-500:]}\n```\n")
        return {}
    with open(out) as file:
        found = json.load(file)
    return {test: [outcome, found["digests"].get(test)] for test, outcome in found["outcomes"].items() if outcome != "skipped"}


class Installed:
    """Puts the drop-in and the layers in the place of NVIDIA's shim inside a `with` block, because cudnn-frontend opens this path."""

    def __init__(self, library):
        self.library = library
        self.layers = os.path.join(os.path.dirname(SHIM), "libcudnn_layers.so")

    def __enter__(self):
        os.rename(SHIM, SHIM + ".nvidia")
        shutil.copy(self.library, SHIM)
        shutil.copy(os.path.join(os.path.dirname(self.library), "libcudnn_layers.so"), self.layers)

    def __exit__(self, *_):
        os.replace(SHIM + ".nvidia", SHIM)
        os.remove(self.layers)


def compared(program, measured):
    """Prints a row: how many results of each way are equal to those of NVIDIA's shim, of those that are stable."""
    first, again = measured[WAYS[0]], measured[WAYS[1]]
    stable = [name for name, value in first.items() if again.get(name) == value]
    cells = []
    for way in WAYS[2:]:
        different = [name for name in stable if measured[way].get(name) != first[name]]
        cells.append(f"{len(stable) - len(different)} of {len(stable)}" + "".join(f"; **{name}**" for name in different[:5]))
    print(f"| {program} | {len(first)} | {len(stable)} | " + " | ".join(cells) + " |", flush=True)


def main():
    if sys.argv[1] == "--child":
        return CHILDREN[sys.argv[2]]()
    library = os.path.abspath(sys.argv[1])
    tests, most, seconds = (sys.argv[2:] + [None, "6", "60"][len(sys.argv) - 2:])[:3]
    scratch = tempfile.mkdtemp()
    measured = {program: {} for program in (*PROGRAMS, "cudnn-frontend's tests")}
    for way in WAYS:
        def all_programs():
            # Most of the time is spent on the CPU.
            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                running = {program: pool.submit(run, way, program, scratch) for program in PROGRAMS}
                if tests:
                    running["cudnn-frontend's tests"] = pool.submit(run_frontend, way, tests, most, seconds, scratch)
                for program, result in running.items():
                    measured[program][way] = result.result()
        if way.startswith("NVIDIA"):
            all_programs()
        else:
            with Installed(library):
                all_programs()
    print("| program | results | the same in two runs of NVIDIA's shim | " + " | ".join(WAYS[2:]) + " |\n" + "| --- " * 6 + "|")
    for program, ways in measured.items():
        if ways:
            compared(program, ways)
    reports = [name for pattern in ("*.validate", "*.explain") for name in glob.glob(f"{scratch}/{pattern}") if os.path.getsize(name)]
    print(f"\nReports of `validate` and `explain`: {len(reports)}")
    for name in reports[:4]:
        print(f"\n{os.path.basename(name)}\n```text\n{open(name, errors='replace').read()[:1500]}\n```")


main()

#!/usr/bin/env python3
"""Measures what tuned engines gain on a GPU: the time of training steps, and of the first step.

    tuned-h200.py DROP_IN CUDNN_LAB [SECONDS]     prints one JSON line per process, and two tables in Markdown

Needs libcudnn_layers.so next to DROP_IN, and the Python of PyTorch, torchvision and JAX. For each model, one step is
captured and its graphs are tuned. Then processes of several kinds take turns. Each reports the first step (for JAX, the
compilation) in seconds, the median device time of a step, which is captured as a CUDA graph so that the CPU does not
decide, and digests of the kernels of a step and of its gradients. The next processes prepare their model while one
measures, and the last one profiles its step. After SECONDS, models that do not fit are left out, and named.

TUNED_CASES chooses cases by number, TUNED_PROCESSES limits the processes of a kind, TUNE_LIMIT the seconds for `tune`,
and SEARCH_LIMIT the seconds of a model's first steps that search among all proposals.
"""

import collections
import fcntl
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Model, type, whether the layout is channels last, batch.
MODELS = [
    ("resnet50", 64),
    ("r3d_18", 8),
    ("efficientnet_b0", 64),
    ("convnext_tiny", 32),
    ("deeplabv3_resnet50", 8),
    ("mobilenet_v2", 64),
    ("unet3d", 2),
]
CASES = [
    (model, kind, last, batch)
    for kind, last in (("half", True), ("tf32", False), ("half", False))
    for model, batch in MODELS
] + [("jax", "half", True, 32)]
# What a process does: whether it searches, its layers, and the number of processes.
MODES = {
    "heuristics": (False, "plans", 10),
    "tuned": (False, "tuned,plans", 10),
    "search": (True, None, 5),
    "search among two": (True, "tuned", 2),
    "search among two, with plans": (True, "tuned,plans", 3),
}
PROCESSES = int(os.environ.get("TUNED_PROCESSES", 10))
SEARCH_LIMIT = float(os.environ.get("SEARCH_LIMIT", "1e9"))
if chosen := os.environ.get("TUNED_CASES"):
    CASES = [CASES[int(case)] for case in chosen.split(",")]


def unet3d(torch):
    nn = torch.nn
    block = lambda a, b: nn.Sequential(
        nn.Conv3d(a, b, 3, padding=1), nn.BatchNorm3d(b), nn.ReLU(), nn.Conv3d(b, b, 3, padding=1), nn.BatchNorm3d(b), nn.ReLU()
    )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [32, 64, 128, 256]
            self.down = nn.ModuleList([block(a, b) for a, b in zip([1] + widths, widths)])
            self.up = nn.ModuleList([nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:])])
            self.join = nn.ModuleList([block(2 * a, a) for a in widths[:-1]])
            self.out = nn.Conv3d(32, 2, 1)

        def forward(self, x):
            skips = []
            for i, down in enumerate(self.down):
                x = down(x if i == 0 else torch.nn.functional.max_pool3d(x, 2))
                skips.append(x)
            for i in reversed(range(len(self.up))):
                x = self.join[i](torch.cat([self.up[i](x), skips[i]], 1))
            return self.out(x)

    return UNet()


def model_of(name, batch):
    import torch
    import torchvision.models as models

    if name == "unet3d":
        return unet3d(torch), (batch, 1, 64, 64, 64)
    if name == "r3d_18":
        return models.video.r3d_18(), (batch, 3, 16, 112, 112)
    if name == "deeplabv3_resnet50":
        return models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None), (batch, 3, 256, 256)
    return getattr(models, name)(), (batch, 3, 224, 224)


def torch_child(name, kind, last, batch, searches, wait):
    import torch

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = searches
    torch.backends.cudnn.benchmark_limit = 0
    torch.backends.cudnn.allow_tf32 = True
    dtype = torch.half if kind == "half" else torch.float
    net, shape = model_of(name, batch)
    net, x = net.cuda().to(dtype), torch.randn(*shape, device="cuda", dtype=dtype)
    if last:
        layout = torch.channels_last_3d if len(shape) == 5 else torch.channels_last
        net, x = net.to(memory_format=layout), x.to(memory_format=layout)

    def step():
        for p in net.parameters():
            p.grad = None
        y = net(x)
        y = y["out"] if isinstance(y, dict) else y
        y.float().square().mean().backward()

    torch.cuda.synchronize()
    wait()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    result = {"first_s": time.perf_counter() - start}
    if wait.captures:
        return result
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(10):
        graph.replay()
    times = []
    for _ in range(40):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    wait.done()
    result |= {"step_ms": statistics.median(times), "fastest_ms": min(times)}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    kernels = [event.name for event in profile.events()]
    gradients = [p.grad.float().cpu().numpy().tobytes() for p in net.parameters() if p.grad is not None]
    return result | {"kernels": digest("\n".join(sorted(kernels)).encode()), "gradients": digest(b"".join(gradients)), "kernel_count": len(kernels)}


def jax_child(batch, wait):
    import jax
    import jax.numpy as jnp

    widths = [64, 64, 128, 128, 256, 256, 512, 512]
    weights, last = [], 3
    for width in widths:
        for inner in (last, width):
            weights.append((3, 3, inner, width))
        last = width
    wait()
    key = jax.random.key(0)

    def loss(weights, x):
        for i, w in enumerate(weights):
            stride = 2 if i in (0, 4, 8, 12) else 1
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return jnp.square(x.astype("float32")).mean()

    weights = [0.05 * jax.random.normal(jax.random.fold_in(key, i), shape, dtype="bfloat16") for i, shape in enumerate(weights)]
    x = jax.random.normal(key, (batch, 128, 128, 3), dtype="bfloat16")
    lowered = jax.jit(jax.grad(loss)).lower(weights, x)
    start = time.perf_counter()
    compiled = lowered.compile()
    result = {"first_s": time.perf_counter() - start}
    if wait.captures:
        jax.block_until_ready(compiled(weights, x))
        return result
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(10):
            out = compiled(weights, x)
        jax.block_until_ready(out)
        times.append((time.perf_counter() - start) * 100)
    gradients = b"".join(jax.device_get(gradient).tobytes() for gradient in out)
    return result | {"step_ms": statistics.median(times), "fastest_ms": min(times), "kernels": "", "gradients": digest(gradients)}


def digest(data):
    return hashlib.sha256(data).hexdigest()[:12]


class Turn:
    """Waits until the GPU is free, and keeps it until `done` or the end of the process."""

    def __init__(self, lock, captures):
        self.lock, self.captures = lock, captures

    def __call__(self):
        self.file = open(self.lock, "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def done(self):
        self.file.close()


def child(case, searches, lock, captures):
    wait = Turn(lock, captures)
    name, kind, last, batch = case
    print(json.dumps(jax_child(batch, wait) if name == "jax" else torch_child(name, kind, last, batch, searches, wait)))


def start(drop_in, case, searches, variables, lock, captures=False):
    env = dict(os.environ, LD_PRELOAD=drop_in, XLA_PYTHON_CLIENT_PREALLOCATE="false", **variables)
    command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps([case, searches, lock, captures])]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    try:
        out, errors = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"failed": "timeout"}
    lines = out.strip().splitlines()
    if process.returncode != 0 or not lines:
        return {"failed": process.returncode, "text": errors[-600:]}
    return json.loads(lines[-1])


def measure(drop_in, lab, case, out):
    key = "-".join(map(str, case))
    capture, tuned, lock = f"{out}/{key}.cudnncap", f"{out}/{key}.tuned.json", f"{out}/{key}.lock"
    captured = finish(start(drop_in, case, False, {"CUDNN_LAYERS": "capture", "CUDNN_CAPTURE": capture}, lock, True))
    begin = time.monotonic()
    with open(f"{out}/{key}.tune.txt", "w") as text:
        command = [lab, "tune", capture, "-o", tuned, "--time-limit", os.environ.get("TUNE_LIMIT", "60")]
        status = subprocess.run(command, stdout=text, stderr=subprocess.STDOUT).returncode
    tune_s = time.monotonic() - begin
    print(json.dumps({"case": key, "capture": captured, "tune_rc": status, "tune_s": tune_s}), flush=True)
    jobs = []
    for round in range(PROCESSES):
        for mode, (searches, layers, rounds) in MODES.items():
            if round >= rounds or case[0] == "jax" and not searches:
                continue
            variables = {}
            if layers:
                variables = {"CUDNN_LAYERS": layers, "CUDNN_TUNED": tuned, "CUDNN_PLANS_DIR": f"{out}/{key}.{mode.replace(' ', '')}.plans"}
                os.makedirs(variables["CUDNN_PLANS_DIR"], exist_ok=True)
            if searches and layers:
                variables["CUDNN_TUNED_ONLY"] = "1"
            jobs.append((mode, searches, variables))
    results, running, searched_s = collections.defaultdict(list), collections.deque(), 0
    while jobs or running:
        while jobs and len(running) < 4:
            mode, searches, variables = jobs.pop(0)
            if mode == "search" and searched_s > SEARCH_LIMIT:
                continue
            running.append((mode, start(drop_in, case, searches, variables, lock)))
        mode, process = running.popleft()
        result = finish(process)
        results[mode].append(result)
        searched_s += result.get("first_s", 0) if mode == "search" else 0
        print(json.dumps({"case": key, "mode": mode, **result}), flush=True)
    return key, tune_s, results


def table(rows):
    numbers = lambda runs, name: [run[name] for run in runs if name in run]
    text = lambda value, digits: "-" if value is None else f"{value:.{digits}f}"
    median = lambda values: statistics.median(values) if values else None
    print("\nmedian of the steps (fastest to slowest process), ms; and the number of different kernels and gradients")
    print("| case | " + " | ".join(MODES) + " | `tune` |\n| --- |" + " --- |" * (len(MODES) + 1))
    for key, tune_s, results in rows:
        cells = []
        for mode in MODES:
            steps = numbers(results[mode], "step_ms")
            spread = f" ({min(steps):.2f} to {max(steps):.2f}; {len(set(numbers(results[mode], 'kernels')))}, {len(set(numbers(results[mode], 'gradients')))} of {len(steps)})" if steps else ""
            cells.append(text(median(steps), 2) + spread)
        print(f"| {key} | " + " | ".join(cells) + f" | {tune_s:.0f} s |")
    print("\nfirst process, and median of the others: first step in seconds")
    print("| case | " + " | ".join(MODES) + " |\n| --- |" + " --- |" * len(MODES))
    for key, _, results in rows:
        firsts = {mode: numbers(results[mode], "first_s") for mode in MODES}
        print(f"| {key} | " + " | ".join(f"{text((f or [None])[0], 2)}, {text(median(f[1:]), 2)}" for f in firsts.values()) + " |")


def main():
    drop_in, lab = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    end = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else 1e9)
    out = tempfile.mkdtemp(dir=os.environ.get("OUT"))
    rows, left, first = [], [], time.monotonic()
    for case in CASES:
        begin = time.monotonic()
        if begin + (begin - first) / max(len(rows), 1) > end:
            left.append(case)
            continue
        rows.append(measure(drop_in, lab, case, out))
        print(json.dumps({"case": rows[-1][0], "all_s": time.monotonic() - begin}), flush=True)
    table(rows)
    print("left out:", left)


if sys.argv[1:2] == ["--child"]:
    child(*json.loads(sys.argv[2]))
else:
    main()

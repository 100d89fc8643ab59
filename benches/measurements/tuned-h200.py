#!/usr/bin/env python3
"""Measures what tuned engines gain on a GPU: the time of training steps, and of the first step.

    tuned-h200.py DROP_IN CUDNN_LAB [SECONDS]     prints one JSON line per process, and a table in Markdown

Needs libcudnn_layers.so next to DROP_IN, and the Python of PyTorch with torchvision. For each model, one step is captured
and its graphs are tuned. Then processes take turns: cuDNN's heuristics, `cudnn.benchmark` with all proposals, the layer
`tuned`, and `cudnn.benchmark` with CUDNN_TUNED_ONLY. A process reports the first step in seconds, and the median device
time of a step, which is captured as a CUDA graph so that the CPU does not decide. SECONDS limits the whole measurement:
models that do not fit are left out, and named. TUNED_CASES
chooses models by number, TUNED_ROUNDS the number of processes of each kind, and TUNE_LIMIT the seconds for `tune`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Model, type, whether the layout is channels last, batch.
CASES = [
    ("r3d_18", "half", False, 8),
    ("efficientnet_b0", "half", True, 64),
    ("resnet50", "half", True, 64),
    ("convnext_tiny", "half", True, 32),
    ("deeplabv3_resnet50", "half", True, 8),
    ("mobilenet_v2", "tf32", False, 64),
    ("unet3d", "half", False, 2),
    ("resnet50", "half", False, 64),
    ("efficientnet_b0", "tf32", False, 64),
    ("r3d_18", "tf32", False, 8),
]
MODES = ["heuristics", "benchmark", "tuned", "tuned only"]
ROUNDS = int(os.environ.get("TUNED_ROUNDS", "2"))
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


def child(name, kind, last, batch, mode):
    import torch

    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = mode in ("benchmark", "tuned only")
    torch.backends.cudnn.benchmark_limit = 0 if mode == "benchmark" else 10
    torch.backends.cudnn.allow_tf32 = True
    dtype = torch.half if kind == "half" else torch.float
    if name == "unet3d":
        net, shape = unet3d(torch), (batch, 1, 64, 64, 64)
    else:
        import torchvision.models as models

        if name.startswith("r3d"):
            net, shape = models.video.r3d_18(), (batch, 3, 16, 112, 112)
        elif name.startswith("deeplab"):
            net = models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None)
            shape = (batch, 3, 256, 256)
        else:
            net, shape = getattr(models, name)(), (batch, 3, 224, 224)
    net, x = net.cuda().to(dtype), torch.randn(*shape, device="cuda", dtype=dtype)
    if last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)

    def step():
        for p in net.parameters():
            p.grad = None
        y = net(x)
        y = y["out"] if isinstance(y, dict) else y
        y.float().square().mean().backward()

    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    if mode == "capture":
        print(json.dumps({"first_s": first}))
        return
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
    print(json.dumps({"first_s": first, "step_ms": statistics.median(times), "fastest_ms": min(times)}))


def run(drop_in, case, mode, variables, timeout=200):
    env = dict(os.environ, LD_PRELOAD=drop_in, **variables)
    command = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(case), mode]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"failed": done.returncode, "text": done.stderr[-600:]}
    return json.loads(lines[-1])


def main():
    drop_in, lab = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    end = time.monotonic() + float(sys.argv[3] if len(sys.argv) > 3 else 3600)
    out = os.environ.get("OUT") or tempfile.mkdtemp()
    limit = os.environ.get("TUNE_LIMIT", "60")
    rows, left = [], []
    for case in CASES:
        if time.monotonic() > end - 60:
            left.append(case)
            continue
        key = "-".join(map(str, case))
        capture, tuned = f"{out}/{key}.cudnncap", f"{out}/{key}.tuned.json"
        begin = time.monotonic()
        captured = run(drop_in, case, "capture", {"CUDNN_LAYERS": "capture", "CUDNN_CAPTURE": capture})
        start = time.monotonic()
        with open(f"{out}/{key}.tune.txt", "w") as text:
            done = subprocess.run([lab, "tune", capture, "-o", tuned, "--time-limit", limit], stdout=text, stderr=subprocess.STDOUT)
        print(json.dumps({"case": key, "capture": captured, "tune_rc": done.returncode, "tune_s": time.monotonic() - start}), flush=True)
        results = {mode: [] for mode in MODES}
        for _ in range(ROUNDS):
            for mode in MODES:
                variables = {}
                if mode.startswith("tuned"):
                    variables = {"CUDNN_LAYERS": "tuned", "CUDNN_TUNED": tuned}
                if mode == "tuned only":
                    variables["CUDNN_TUNED_ONLY"] = "1"
                try:
                    result = run(drop_in, case, mode, variables)
                except subprocess.TimeoutExpired:
                    result = {"failed": "timeout"}
                results[mode].append(result)
                print(json.dumps({"case": key, "mode": mode, **result}), flush=True)
        rows.append((key, results))
        print(json.dumps({"case": key, "all_s": time.monotonic() - begin}), flush=True)
    value = lambda runs, name: min((run[name] for run in runs if name in run), default=float("nan"))
    print("| model | " + " | ".join(f"{mode}, ms (first, s)" for mode in MODES) + " |")
    print("| --- |" + " --- |" * len(MODES))
    for key, results in rows:
        cells = [f"{value(results[mode], 'step_ms'):.2f} ({value(results[mode], 'first_s'):.2f})" for mode in MODES]
        print(f"| {key} | " + " | ".join(cells) + " |")
    print("left out:", left)


if sys.argv[1:2] == ["--child"]:
    child(*json.loads(sys.argv[2]), sys.argv[3])
else:
    main()

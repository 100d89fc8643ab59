#!/usr/bin/env python3
"""The cost of layers in a small PyTorch step, and whether the traces can be read.

    trace-h200.py DROP_IN [PYTHON]     prints tables in Markdown; libcudnn_layers.so lies beside DROP_IN
    trace-h200.py --step               takes steps and prints their median time, in PyTorch's Python

Each way runs in a process of its own, in turns, three times. NVIDIA's shim comes twice: the difference is the noise.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PYTHON = "/opt/torch/.venv/bin/python"
ROUNDS = 3
STEPS = 200


def step():
    """Four convolutions with batch norms on small images, forward, backward and SGD: the CPU is busier than the GPU."""
    import torch

    torch.manual_seed(2)
    layers = []
    for wide, narrow in ((3, 64), (64, 64), (64, 128), (128, 128)):
        layers += [torch.nn.Conv2d(wide, narrow, 3, padding=1), torch.nn.BatchNorm2d(narrow), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers).cuda().half().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(8, 3, 32, 32, device="cuda").half().contiguous(memory_format=torch.channels_last)

    def once():
        optimizer.zero_grad()
        net(x).float().square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    for _ in range(30):
        once()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    print(statistics.median(times) * 1e3)


def run(python, environment):
    command = [python, os.path.abspath(__file__), "--step"]
    output = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    if output.returncode:
        print(output.stderr[-2000:], file=sys.stderr)
    return float(output.stdout.split()[-1]), output.stderr


def main(drop_in, python=PYTHON):
    scratch = tempfile.mkdtemp()
    preload = {"LD_PRELOAD": os.path.abspath(drop_in)}
    trace = {**preload, "CUDNN_LAYERS": "trace"}
    ways = {
        "NVIDIA's shim": {},
        "NVIDIA's shim, once more": {},
        "drop-in": preload,
        "drop-in, verbose errors": {**preload, "CUDNN_LOADER_VERBOSE_ERRORS": "1"},
        "trace: summary": {**trace, "CUDNN_TRACE_SUMMARY": f"{scratch}/summary-%i", "CUDNN_TRACE_ARGUMENTS": "0"},
        "trace: file without arguments": {**trace, "CUDNN_TRACE": f"{scratch}/short-%i.json", "CUDNN_TRACE_ARGUMENTS": "0"},
        "trace: file": {**trace, "CUDNN_TRACE": f"{scratch}/full-%i.json"},
        "trace: file, with the device's time": {**trace, "CUDNN_TRACE": f"{scratch}/gpu-%i.json", "CUDNN_TRACE_GPU": "1"},
    }
    times = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, environment in ways.items():
            times[way].append(run(python, environment)[0])
    base = statistics.median(times["NVIDIA's shim"])
    print("| | median of a step, ms | ratio | lowest to highest |\n| --- | --- | --- | --- |")
    for way, found in times.items():
        median = statistics.median(found)
        print(f"| {way} | {median:.3f} | {median / base:.3f} | {min(found):.3f} to {max(found):.3f} |")
    print("\n| file | bytes | events | of the device | functions | first |\n| --- | --- | --- | --- | --- | --- |")
    seen = set()
    for name in sorted(os.listdir(scratch)):
        path = os.path.join(scratch, name)
        if not name.endswith(".json") or name.split("-")[0] in seen:
            continue
        seen.add(name.split("-")[0])
        events = json.load(open(path))
        slices = [event for event in events if event.get("ph") == "X"]
        device = [event for event in slices if "gpu" in str(event.get("cat", "")).lower() or "GPU" in str(event.get("pid", ""))]
        print(f"| {name.split('-')[0]} | {os.path.getsize(path)} | {len(events)} | {len(device)} | {len({event['name'] for event in slices})} | {slices[0]['name'] if slices else ''} |")
        keep = os.environ.get("OUT")
        if keep and not os.path.exists(f"{keep}/{name.split('-')[0]}.json"):
            with open(f"{keep}/{name.split('-')[0]}.json", "w") as out:
                json.dump(events[:400] + events[-200:], out)
    for name in sorted(os.listdir(scratch)):
        if name.startswith("summary") or name.startswith("lines"):
            text = open(os.path.join(scratch, name)).read()
            print(f"\n{name}:\n```text\n{text[:2500]}\n```")
            break


if __name__ == "__main__":
    if sys.argv[1] == "--step":
        step()
    else:
        main(*sys.argv[1:])

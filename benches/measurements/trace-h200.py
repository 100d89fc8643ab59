#!/usr/bin/env python3
"""Measures the cost of a trace in a small PyTorch step.

    trace-h200.py DROP_IN [SECONDS [BATCH SIZE]]     prints a table in Markdown

Needs libcudnn_layers.so next to DROP_IN, and PyTorch's Python. SECONDS defaults to 230, and the step uses 8 images of 32 by
32 by default.

Two processes import PyTorch, one of them with the drop-in preloaded. They fork a child for every run, which calls cuDNN
for the first time. The configurations take turns until the time is over. NVIDIA's shim runs twice; the difference is the
noise. All threads of a child are pinned to one core, except the layer's threads, which use another core.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_step import training_step

WARM_UP = 30
STEPS = 150


def take_steps(way):
    """In a child: takes steps, and returns what one costs."""
    os.environ.update(way["environment"])
    step = training_step(way["batch"], way["size"])
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return {"median": statistics.median(times) * 1e3, "least": min(times) * 1e3}


def serve():
    """Imports PyTorch, and forks a child for each line of the standard input, which is a way to run."""
    first = json.loads(sys.stdin.readline())
    os.sched_setaffinity(0, {first["cores"][0]})
    import torch

    print(json.dumps({"version": torch.__version__, "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        way = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                json.dump(take_steps(way), out)
            # Run the exit handlers of libraries, as in a normal exit.
            sys.stdout.flush()
            ctypes.CDLL(None).exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        status = wait(child)
        print(text if text else json.dumps({"failed": status}), flush=True)


def wait(child):
    """Waits for a child that ends, at most 20 seconds."""
    for _ in range(2000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


class Server:
    """A process that has imported PyTorch."""

    def __init__(self, environment, cores):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve"],
            env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.ask({"cores": cores})

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process with PyTorch ended with {self.process.wait()}")
        return json.loads(answer)


def main(drop_in, seconds="230", batch="8", size="32"):
    start = time.monotonic()
    scratch = tempfile.mkdtemp()
    available = sorted(os.sched_getaffinity(0))
    cores = [available[len(available) // 2], available[-1]]
    trace = {"CUDNN_LAYERS": "trace"}
    summary = {**trace, "CUDNN_TRACE_SUMMARY": f"{scratch}/summary-%i", "CUDNN_TRACE_ARGUMENTS": "0"}
    short = {**trace, "CUDNN_TRACE": f"{scratch}/short-%i.json", "CUDNN_TRACE_ARGUMENTS": "0"}
    full = {**trace, "CUDNN_TRACE": f"{scratch}/full-%i.json"}
    ways = {
        "NVIDIA's shim": None,
        "NVIDIA's shim, once more": None,
        "drop-in": {},
        "trace: summary": summary,
        "trace: file without arguments": short,
        "trace: file": full,
    }
    servers = {True: Server({"LD_PRELOAD": os.path.abspath(drop_in)}, cores), False: Server({}, cores)}
    times = {way: [] for way in ways}
    failures, rounds = [], 0
    longest = 0
    while time.monotonic() - start + longest < float(seconds):
        began = time.monotonic()
        rounds += 1
        for way, environment in ways.items():
            question = {"batch": int(batch), "size": int(size), "environment": environment or {}}
            found = servers[environment is not None].ask(question)
            times[way].append(found) if "median" in found else failures.append((way, found))
        clean(scratch)
        longest = max(longest, time.monotonic() - began)
    print(f"{rounds} rounds of {STEPS} steps in {time.monotonic() - start:.0f} s; cores {cores} of {len(available)}")
    for failure in failures:
        print("failed:", failure)
    print_times(times)


def clean(scratch):
    """Leaves the newest file of each kind."""
    newest = {}
    for name in sorted(os.listdir(scratch), key=lambda name: os.path.getmtime(f"{scratch}/{name}")):
        kind = name.split("-")[0]
        if kind in newest:
            os.remove(f"{scratch}/{newest[kind]}")
        newest[kind] = name


def print_times(times):
    print("\nMilliseconds of a step: the median of the processes' medians, and the least of all steps.\n")
    print("| | median | ratio | least | ratio |\n| --- | --- | --- | --- | --- |")
    base = None
    for way, found in times.items():
        if not found:
            continue
        row = (statistics.median(one["median"] for one in found), min(one["least"] for one in found))
        base = base or row
        print(f"| {way} | " + " | ".join(f"{value:.3f} | {value / first:.3f}" for value, first in zip(row, base)) + " |")


if __name__ == "__main__":
    serve() if sys.argv[1] == "--serve" else main(*sys.argv[1:])

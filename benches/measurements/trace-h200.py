#!/usr/bin/env python3
"""Measures the cost of layers in a small PyTorch step, and shows where the time goes.

    trace-h200.py DROP_IN STOPWATCH [SECONDS [BATCH SIZE]]     prints tables in Markdown

Needs libcudnn_layers.so next to DROP_IN, and PyTorch's Python. STOPWATCH is stopwatch.c, compiled. SECONDS defaults to 230,
and the step uses 8 images of 32 by 32 by default.

Two processes import PyTorch, one of them with the drop-in preloaded. They fork a child for every run, which calls cuDNN
for the first time. The configurations take turns until the time is over. NVIDIA's shim runs twice; the difference is the
noise. All threads of a child are pinned to one core, except the layer's threads, which use another core.
"""

import ctypes
import json
import os
import resource
import shutil
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
    if way["stopwatch"]:
        ctypes.CDLL(way["stopwatch"]).stopwatch_reset()
    before = resource.getrusage(resource.RUSAGE_SELF)
    walls, threads = [], []
    process = time.process_time()
    for _ in range(STEPS):
        wall, thread = time.perf_counter(), time.thread_time()
        step()
        threads.append(time.thread_time() - thread)
        walls.append(time.perf_counter() - wall)
    process = (time.process_time() - process) / STEPS
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall": statistics.median(walls) * 1e3,
        "least": min(walls) * 1e3,
        "thread": statistics.median(threads) * 1e3,
        "process": process * 1e3,
        "faults": (after.ru_minflt - before.ru_minflt) / STEPS,
        "switches": (after.ru_nivcsw - before.ru_nivcsw) / STEPS,
    }


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


def main(drop_in, stopwatch, seconds="230", batch="8", size="32"):
    start = time.monotonic()
    scratch = tempfile.mkdtemp()
    outer, inner = f"{scratch}/stopwatch.so", f"{scratch}/stopwatch-inner.so"
    shutil.copy(stopwatch, outer)
    shutil.copy(stopwatch, inner)
    available = sorted(os.sched_getaffinity(0))
    cores = [available[len(available) // 2], available[-1]]
    trace = {"CUDNN_LAYERS": "trace"}
    summary = {**trace, "CUDNN_TRACE_SUMMARY": f"{scratch}/summary-%i", "CUDNN_TRACE_ARGUMENTS": "0"}
    short = {**trace, "CUDNN_TRACE": f"{scratch}/short-%i.json", "CUDNN_TRACE_ARGUMENTS": "0"}
    full = {**trace, "CUDNN_TRACE": f"{scratch}/full-%i.json"}
    timed = {
        "NVIDIA's shim": None,
        "NVIDIA's shim, once more": None,
        "drop-in": {},
        "trace: summary": summary,
        "trace: file without arguments": short,
        "trace: file": full,
    }
    watched = {
        "no layer between": {"CUDNN_LAYERS": f"{outer},{inner}"},
        **{way: {**timed[way], "CUDNN_LAYERS": f"{outer},trace,{inner}"} for way in list(timed)[3:]},
    }
    servers = {True: Server({"LD_PRELOAD": os.path.abspath(drop_in)}, cores), False: Server({}, cores)}
    times = {way: [] for way in timed}
    tables = {way: [] for way in watched}

    def run(environment, with_stopwatch=None):
        question = {"cores": cores, "batch": int(batch), "size": int(size), "stopwatch": with_stopwatch}
        return servers[environment is not None].ask({**question, "environment": environment or {}})

    failures, rounds = [], 0
    longest = 0
    while time.monotonic() - start + longest < float(seconds):
        began = time.monotonic()
        rounds += 1
        for way, environment in timed.items():
            found = run(environment)
            times[way].append(found) if "wall" in found else failures.append((way, found))
        # These need fewer rounds, because they measure within a process.
        for way, environment in watched.items() if rounds % 2 else ():
            table = f"{scratch}/table"
            found = run({**environment, "STOPWATCH": table}, outer)
            if "wall" in found and os.path.exists(table):
                tables[way].append(open(table).read())
                os.remove(table)
            else:
                failures.append((f"stopwatch, {way}", found))
        clean(scratch)
        longest = max(longest, time.monotonic() - began)
    print(f"{rounds} rounds of {STEPS} steps in {time.monotonic() - start:.0f} s; cores {cores} of {len(available)}")
    for failure in failures:
        print("failed:", failure)
    print_times(times)
    print_tables(tables)


def clean(scratch):
    """Leaves the newest file of each kind."""
    newest = {}
    for name in sorted(os.listdir(scratch), key=lambda name: os.path.getmtime(f"{scratch}/{name}")):
        kind = name.split("-")[0]
        if name.endswith(".so"):
            continue
        if kind in newest:
            os.remove(f"{scratch}/{newest[kind]}")
        newest[kind] = name


def print_times(times):
    columns = ("wall", "least", "thread", "process", "faults", "switches")
    print("\nMilliseconds of a step: the median of the processes' medians of wall time, the least of all steps, the")
    print("medians of the stepping thread's and of the process's CPU time; page faults and preemptions a step.\n")
    print("| | wall | ratio | least | ratio | thread | process | ratio | faults | preempted |")
    print("| --- |" + " --- |" * 9)
    base = None
    for way, found in times.items():
        if not found:
            continue
        row = {column: statistics.median(one[column] for one in found) for column in columns}
        row["least"] = min(one["least"] for one in found)
        base = base or row
        print(
            f"| {way} | {row['wall']:.3f} | {row['wall'] / base['wall']:.3f} | {row['least']:.3f} | "
            f"{row['least'] / base['least']:.3f} | {row['thread']:.3f} | {row['process']:.3f} | "
            f"{row['process'] / base['process']:.3f} | {row['faults']:.2f} | {row['switches']:.2f} |"
        )


def print_tables(tables):
    """What layers took inside each process, by function."""
    functions = {}
    for way, texts in tables.items():
        for text in texts:
            for line in text.splitlines():
                name, calls, inside, middle, mean = line.split()
                row = functions.setdefault(name, {})
                row.setdefault(way, []).append((float(calls), float(inside), float(middle), float(mean)))
    ways = [way for way in tables if tables[way]]
    print("\nNanoseconds of a call between two stopwatches: median / mean; the medians of the processes.\n")
    print("| function | calls a step | cuDNN | " + " | ".join(ways) + " |\n| --- | --- | --- |" + " --- |" * len(ways))
    sums = {way: [0.0, 0.0] for way in ways}
    for name, row in sorted(functions.items(), key=lambda item: -max(one[0][0] for one in item[1].values())):
        any_way = next(iter(row.values()))
        cells = []
        for way in ways:
            if way not in row:
                cells.append("")
                continue
            calls = statistics.median(one[0] for one in row[way]) / STEPS
            middle, mean = (statistics.median(one[index] for one in row[way]) for index in (2, 3))
            sums[way][0] += calls * middle
            sums[way][1] += calls * mean
            cells.append(f"{middle:.0f} / {mean:.0f}")
        calls, inside = (statistics.median(one[index] for one in any_way) for index in (0, 1))
        print(f"| `{name}` | {calls / STEPS:.1f} | {inside:.0f} | " + " | ".join(cells) + " |")
    print("| a step, µs | | | " + " | ".join(f"{a / 1e3:.1f} / {b / 1e3:.1f}" for a, b in sums.values()) + " |")


if __name__ == "__main__":
    serve() if sys.argv[1] == "--serve" else main(*sys.argv[1:])

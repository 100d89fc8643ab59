#!/usr/bin/env python3
"""Emits every graph of captures as a program, captures this program, and compares the two captures.

    closed-loop.py LANGUAGE DROP_IN DIRECTORY CAPTURE...     keeps the programs in DIRECTORY

LANGUAGE is python or c++. Needs `cudnn-lab` in PATH, libcudnn_layers.so next to DROP_IN, and CUDNN_LOADER_DIR. For C++,
CPPFLAGS names the directories of cudnn.h and of CUDA's headers. JOBS is the number of parallel programs (8).
"""

import collections
import concurrent.futures
import json
import os
import subprocess
import sys

SUFFIX = {"python": "py", "c++": "cpp"}


def records(file):
    try:
        with open(file) as lines:
            return [json.loads(line) for line in lines]
    except OSError:
        return []


def plan(capture, graph):
    """Returns status, engine and workspace of the first plan that works, otherwise of the first plan."""
    plans = [record for record in capture if record["record"] == "plan" and record["graph"] == graph]
    working = [plan for plan in plans if plan["status"] == "SUCCESS"]
    return next(([plan.get(key) for key in ("status", "engine", "workspace")] for plan in working or plans), None)


def close(language, drop_in, directory, capture, graph):
    """Returns `equal`, or what is different."""
    program = os.path.join(directory, f"{os.path.basename(capture)}-{graph}")
    source = f"{program}.{SUFFIX[language]}"
    emit = ["cudnn-lab", "emit", capture, "--graph", graph, "--language", language, "--output", source]
    emitted = subprocess.run(emit, capture_output=True, text=True)
    if emitted.returncode:
        return f"not emitted: {emitted.stderr.strip()[-200:]}"
    command = [sys.executable, source]
    if language == "python":
        with open(source) as file:
            text = file.read()
        with open(source, "w") as file:
            # Otherwise, the program opens the library of the wheel by path.
            file.write(text.replace("LIBRARY = None", f"LIBRARY = {drop_in!r}", 1))
    if language == "c++":
        flags = os.environ.get("CPPFLAGS", "").split()
        library = os.path.join(os.environ["CUDNN_LOADER_DIR"], "libcudnn.so.9")
        compile = ["c++", "-std=c++17", *flags, source, "-o", program, library, "-ldl", "-lpthread"]
        compiled = subprocess.run(compile, capture_output=True, text=True)
        if compiled.returncode:
            return f"not compiled: {compiled.stderr[:200]}"
        command = [program]
    again = f"{program}.cudnncap"
    environment = {**os.environ, "LD_PRELOAD": drop_in, "CUDNN_LAYERS": "capture", "CUDNN_CAPTURE": again}
    environment["LD_LIBRARY_PATH"] = ":".join([os.environ["CUDNN_LOADER_DIR"], os.environ.get("LD_LIBRARY_PATH", "")])
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return "not ended after 90 s"
    output = (ended.stdout + ended.stderr).strip()[-200:]
    first, second = records(capture), records(again)
    if graph not in {record["graph"] for record in second if record["record"] == "graph"}:
        return f"another graph: {output}"
    if plan(first, graph) not in (None, plan(second, graph)):
        return f"another plan: {plan(first, graph)} became {plan(second, graph)}"
    return "equal" if ended.returncode == 0 else f"equal, and the program failed: {output}"


def main():
    language, drop_in, directory, *captures = sys.argv[1:]
    drop_in = os.path.abspath(drop_in)
    os.makedirs(directory, exist_ok=True)
    graphs = {}
    for capture in captures:
        for record in records(capture):
            if record["record"] == "graph":
                graphs.setdefault(record["graph"], capture)
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "8"))) as pool:
        jobs = [pool.submit(close, language, drop_in, directory, capture, graph) for graph, capture in graphs.items()]
        results = [job.result() for job in jobs]
    print(len(results), dict(collections.Counter(result.split(":")[0] for result in results)))
    for (graph, capture), result in zip(graphs.items(), results):
        if result != "equal":
            print(f"{os.path.basename(capture)} {graph} {result}")


main()

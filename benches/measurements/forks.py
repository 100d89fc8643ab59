#!/usr/bin/env python3
"""Counts the children that hang when a program forks while threads use cuDNN.

forks.py PROGRAM DIRECTORY_OF_THE_DROP_IN RUNS DIRECTORY_OF_CUDNN [DIRECTORIES_OF_OTHER_LIBRARIES...]

PROGRAM is forks.c, linked to libcudnn.so.9. The directory of the drop-in also contains the layers. The program runs with
NVIDIA's shim, with the drop-in, and with the drop-in and all layers. With gdb, prints where children hang."""

import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

program, drop_in, runs, *libraries = sys.argv[1:]
LAYERS = "explain,validate,errata,capture,plans,trace"
SUBJECTS = {"NVIDIA's shim": ([], ""), "the drop-in": ([drop_in], ""), "with all layers": ([drop_in], LAYERS)}
# cuDNN's own functions, and the libraries' names, are enough to see where a child waits.
BORING = re.compile(r"futex|lll_lock|mutex_lock|clone|main|fork|\?\?")


def run(work, subject, index):
    dirs, layers = SUBJECTS[subject]
    with tempfile.TemporaryDirectory() as own:
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": ":".join(dirs + libraries)}
        if layers:
            environment |= {"CUDNN_LAYERS": layers, "CUDNN_ERRATA": "known", "CUDNN_TRACE": f"{own}/trace.json"}
            environment |= {"CUDNN_CAPTURE": f"{own}/app.cudnncap", "CUDNN_PLANS_DIR": f"{own}/plans"}
            environment |= {"CUDNN_VALIDATE": f"{own}/validate", "CUDNN_EXPLAIN_OUTPUT": f"{own}/explain"}
        # gdb takes seconds, and the first places are enough.
        debugs = ["gdb"] if index < 20 and shutil.which("gdb") else []
        try:
            ended = subprocess.run([program, work, *debugs], env=environment, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "the parent hangs", ""
    first, *frames = ended.stdout.split("\n")
    outer = [frame for frame in frames if frame.startswith("#") and not BORING.search(frame)]
    if first not in ("ok", "hangs"):
        first = first or f"the parent ended with {ended.returncode}"
    place = " < ".join(re.sub(r"^#\d+ +", "", frame) for frame in outer[:4])
    return first, place


print("| threads repeat |" + "".join(f" {subject} |" for subject in SUBJECTS) + "\n|" + " --- |" * (len(SUBJECTS) + 1))
places = collections.Counter()
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    for work in ["tensors", "graphs", "refused", "handles"]:
        cells = []
        for subject in SUBJECTS:
            ends = collections.Counter()
            for end, place in pool.map(lambda index: run(work, subject, index), range(int(runs))):
                ends[end] += 1
                if end == "hangs" and place:
                    places[work, subject, place] += 1
            others = "".join(f"; {end}: {count}" for end, count in ends.items() if end not in ("ok", "hangs"))
            cells.append(f"{ends['hangs']} of {runs}{others}")
        print(f"| {work} | {' | '.join(cells)} |", flush=True)
for (work, subject, place), count in sorted(places.items()):
    print(f"{work}, {subject}: {count}: {place}")

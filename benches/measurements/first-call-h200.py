#!/usr/bin/env python3
"""Measures the first call of cudnnGetVersion through every call path.

    first-call-h200.py FIRST_CALL CUDNN_DIR

FIRST_CALL is the program with this name from the package cudnn-benches. The call paths take turns and run 200 times each,
in new processes. The numbers are medians in milliseconds. Prints Markdown.
"""
import statistics, subprocess, sys

program, directory = sys.argv[1:3]
RUNS = {
    "NVIDIA's shim, opened before": (["shim", directory], {}),
    "NVIDIA's shim, opened by the call": (["open-shim", directory], {}),
    "cudarc, LD_LIBRARY_PATH": (["cudarc"], {"LD_LIBRARY_PATH": directory}),
    "this loader, `CUDNN_LOADER_DIR`": (["loader"], {"CUDNN_LOADER_DIR": directory}),
    "this loader, LD_LIBRARY_PATH": (["loader"], {"LD_LIBRARY_PATH": directory}),
    "this loader, in a C++ program, which has the C++ library already": (
        ["loader-in-cpp"], {"CUDNN_LOADER_DIR": directory}),
}
times = {name: [] for name in RUNS}
for _ in range(200):
    for name, (arguments, environment) in RUNS.items():
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True)
        times[name].append(int(done.stdout) / 1e6)
medians = {name: statistics.median(all) for name, all in times.items()}
before, by_the_call = list(medians.values())[:2]
print("| | ms | ratio to NVIDIA's shim, opened before | opened by the call |\n| --- | --- | --- | --- |")
for name, median in medians.items():
    print(f"| {name} | {median:.2f} | {median / before:.2f} | {median / by_the_call:.2f} |")

#!/usr/bin/env python3
"""Runs NVIDIA's Python tests of cudnn-frontend without cached plans, with an empty plan store, and with a full one.

    frontend-tests-h200.py TESTS [MOST [SECONDS [WITHOUT..]]]     prints Markdown

TESTS is the directory test/python of NVIDIA's repository cudnn-frontend. The drop-in is installed in place of the wheel's
libcudnn.so.9, together with libcudnn_layers.so, because cudnn-frontend opens that file by path. MOST is the number of tests
per file, SECONDS the time limit per configuration, and WITHOUT lists excluded files. The configuration without a store runs
twice as a control: differences between these two runs are meaningless.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(tests, way, scratch, most, seconds, without):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDNN_")}
    out = os.path.join(scratch, f"{way}.json".replace(" ", "-"))
    environment.update(
        EXECUTION_DIGESTS=out, EXECUTION_DIGESTS_MOST=most, EXECUTION_DIGESTS_SECONDS=seconds, CUDNN_PLANS_DIR=f"{scratch}/store",
        PYTHONPATH=os.pathsep.join([HERE, environment.get("PYTHONPATH", "")]),
    )
    if way != "none":
        environment["EXECUTION_DIGESTS_LIKE"] = f"{scratch}/none.json"
    if "store" in way:
        environment.update(CUDNN_LAYERS="plans", CUDNN_PLANS_SUMMARY=f"{out}.summary")
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "execution_digests", "-p", "no:cacheprovider", "-m", "L0", "."]
        + [f"--ignore={name}" for name in without],
        cwd=tests, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    if not os.path.exists(out):
        print(f"{way}: pytest ended with {done.returncode}\n{done.stdout[-3000:]}")
        return None
    with open(out) as file:
        found = json.load(file)
    found["seconds"] = time.monotonic() - start
    found["summary"] = open(f"{out}.summary").read() if os.path.exists(f"{out}.summary") else ""
    found["tail"] = done.stdout[-600:]
    return found


def main(tests, most="8", seconds="40", *without):
    scratch = tempfile.mkdtemp()
    ways = ["none", "none, once more", "empty store", "full store"]
    results = {}
    for way in ways:
        results[way] = run(tests, way, scratch, most, seconds if way == "none" else "1000", without)
        if results[way] is None:
            return
    ran = [test for test, outcome in results["none"]["outcomes"].items() if outcome == "passed"]
    print("| | passed | failed | skipped | executions | to build plans, ms, median | in all, s | the process, s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for way, found in results.items():
        outcomes = [found["outcomes"].get(test) for test in results["none"]["outcomes"]]
        times = [time for test in ran for time in found["building"].get(test, [])]
        print(
            f"| {way} | {outcomes.count('passed')} | {outcomes.count('failed')} | {outcomes.count('skipped')} "
            f"| {sum(len(found['digests'].get(test, [])) for test in ran)} "
            f"| {statistics.median(times) * 1e3 if times else 0:.1f} | {sum(times):.1f} | {found['seconds']:.0f} |"
        )
    stable = [t for t in ran if results["none"]["digests"].get(t) == results["none, once more"]["digests"].get(t)]
    stable = [t for t in stable if results["none"]["digests"].get(t)]
    print(f"\n{len(stable)} tests that execute gave the same bits twice without the layer.")
    for way in ways[2:]:
        other = [t for t in stable if results[way]["digests"].get(t) != results["none"]["digests"][t]]
        print(f"- {way}: the same bits in {len(stable) - len(other)}", *(f"\n  - {test}" for test in other))
        worse = [t for t in ran if results[way]["outcomes"].get(t) != "passed"]
        print(f"  - passed without the layer and not now: {len(worse)}", *(f"\n    - {test}" for test in worse))
    pairs = [
        (before, after)
        for test in ran
        for before, after in zip(results["none, once more"]["building"].get(test, []), results["full store"]["building"].get(test, []))
        if before > 0.03
    ]
    if pairs:
        ratios = [before / after for before, after in pairs]
        print(f"\n{len(pairs)} builds took more than 30 ms: {statistics.median(ratios):.1f} times faster, median; least {min(ratios):.1f}")
    for way in ways[2:]:
        print(f"\n{way}:\n```text\n{results[way]['summary']}```")
    if "--tail" in sys.argv:
        print(results["none"]["tail"])


if __name__ == "__main__":
    main(*[word for word in sys.argv[1:] if word != "--tail"])

"""Records digests of all tensors after every execution by NVIDIA's cudnn-frontend, per test. This is a plugin for pytest.

    EXECUTION_DIGESTS=out.json python -m pytest -p execution_digests ...

Every test starts with the same seeds. EXECUTION_DIGESTS_MOST: the maximum number of tests per file, spread over the
file, starting with one test of every file.
EXECUTION_DIGESTS_SECONDS: skips tests that have not started after this time.
EXECUTION_DIGESTS_LIKE: runs the tests that passed or failed in this earlier output. Independent of the layers.
"""

import hashlib
import json
import os
import time

import pytest

MOST = int(os.environ.get("EXECUTION_DIGESTS_MOST", "1000000"))
END = time.monotonic() + float(os.environ.get("EXECUTION_DIGESTS_SECONDS", "1e9"))
digests, outcomes, building = {}, {}, {}
current = None


def digest(buffers):
    import torch

    torch.cuda.synchronize()
    summed = hashlib.sha256()
    named = [(key if isinstance(key, int) else key.get_uid(), value) for key, value in buffers.items() if key is not None]
    for _, tensor in sorted(named, key=lambda pair: pair[0]):
        if torch.is_tensor(tensor):
            summed.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return summed.hexdigest()[:16]


def pytest_configure(config):
    import cudnn

    def digesting(execute):
        def wrapper(self, buffers, *args, **kwargs):
            result = execute(self, buffers, *args, **kwargs)
            try:
                digests.setdefault(current, []).append(digest(buffers))
            except Exception as error:
                digests.setdefault(current, []).append(f"no digest: {type(error).__name__}: {error}"[:120])
            return result

        return wrapper

    def timing(build):
        def wrapper(self, *args, **kwargs):
            start = time.perf_counter()
            try:
                return build(self, *args, **kwargs)
            finally:
                building.setdefault(current, []).append(time.perf_counter() - start)

        return wrapper

    graph = cudnn.pygraph
    graph.execute = digesting(graph.execute)
    graph.execute_plan_at_index = digesting(graph.execute_plan_at_index)
    for name in ("build_plans", "build_plan_at_index", "build"):
        if hasattr(graph, name):
            setattr(graph, name, timing(getattr(graph, name)))


def pytest_collection_modifyitems(config, items):
    files = {}
    for item in items:
        if item.get_closest_marker("L0"):
            files.setdefault(item.path, []).append(item)
    kept = []
    for of_file in files.values():
        step = max(1, len(of_file) / MOST)
        kept += [(index, of_file[int(index * step)]) for index in range(min(MOST, len(of_file)))]
    # One test of every file first, because the time may run out.
    kept = [item for _, item in sorted(kept, key=lambda pair: pair[0])]
    if earlier := os.environ.get("EXECUTION_DIGESTS_LIKE"):
        with open(earlier) as file:
            ran = {test for test, outcome in json.load(file)["outcomes"].items() if outcome != "skipped"}
        kept = [item for item in kept if item.nodeid in ran]
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    global current
    current = item.nodeid
    if time.monotonic() > END:
        pytest.skip("the time is over")
    import random

    import numpy
    import torch

    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish():
    with open(os.environ["EXECUTION_DIGESTS"], "w") as out:
        json.dump({"digests": digests, "outcomes": outcomes, "building": building}, out)

#!/usr/bin/env python3
"""Measures the time that the layer `plans` saves on a GPU, and checks that results stay bit-identical.

    plans-h200.py DROP_IN [ROUNDS]     prints tables in Markdown

PLANS_CUDNN: the directory of another cuDNN to
use. PLANS_PACK: a pack to start with, as an additional configuration.

Needs libcudnn_layers.so next to DROP_IN, and PyTorch's Python. Every process computes attention forward and backward at 20
shapes through PyTorch. If NVIDIA's cudnn-frontend is installed, it also computes a layer norm and a matmul with bias and
GELU. The configurations take turns, and every round starts with an empty store. A process with the layer `trace` outside of
`plans` measures the time of cuDNN's functions as seen by the program.
"""

import ctypes
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SHAPES = [
    (batch, heads, length, head)
    for head in (64, 128)
    for batch, heads, length in (
        (1, 8, 128), (2, 8, 256), (4, 8, 512), (1, 16, 1024), (2, 16, 384),
        (8, 4, 192), (3, 12, 320), (1, 32, 2048), (16, 2, 64), (5, 6, 448),
    )
]


def digest(tensors):
    import torch

    summed = hashlib.sha256()
    for tensor in tensors:
        summed.update(tensor.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return summed.hexdigest()[:16]


def attention(shape, is_causal):
    """The seconds and the results of the first step at this shape."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, length, head = shape
    generator = torch.Generator("cuda").manual_seed(7)
    make = lambda: torch.randn(
        batch, heads, length, head, device="cuda", dtype=torch.half, generator=generator
    ).requires_grad_()
    query, key, value = make(), make(), make()
    torch.cuda.synchronize()
    start = time.perf_counter()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        result = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    result.backward(torch.ones_like(result))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return seconds, digest([result]), digest([query.grad, key.grad, value.grad])


def frontend_graphs():
    """A layer norm and a matmul with bias and GELU: the seconds to build, to run first, and the results."""
    import cudnn
    import torch

    handle = cudnn.create_handle()
    half, single = cudnn.data_type.HALF, cudnn.data_type.FLOAT
    generator = torch.Generator("cuda").manual_seed(9)
    random = lambda *dims, dtype=torch.half: torch.randn(*dims, device="cuda", dtype=dtype, generator=generator)

    def finish(name, graph, tensors, outputs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        built = time.perf_counter()
        workspace = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)
        graph.execute(tensors, workspace, handle=handle)
        torch.cuda.synchronize()
        return {"name": name, "build": built - start, "first": time.perf_counter() - built, "digest": digest(outputs)}

    def layer_norm(rows, columns):
        graph = cudnn.pygraph(io_data_type=half, intermediate_data_type=single, compute_data_type=single, handle=handle)
        x = random(rows, columns, 1, 1)
        scale, bias = random(1, columns, 1, 1, dtype=torch.float), random(1, columns, 1, 1, dtype=torch.float)
        epsilon = torch.full((1, 1, 1, 1), 1e-5, dtype=torch.float)
        tensors = [graph.tensor_like(tensor) for tensor in (x, scale, bias, epsilon)]
        y, mean, variance = graph.layernorm(
            name="LN", norm_forward_phase=cudnn.norm_forward_phase.TRAINING,
            input=tensors[0], scale=tensors[1], bias=tensors[2], epsilon=tensors[3],
        )
        y.set_output(True).set_data_type(half)
        mean.set_output(True).set_data_type(single)
        variance.set_output(True).set_data_type(single)
        out = torch.empty_like(x)
        out_mean, out_variance = (torch.empty(rows, 1, 1, 1, device="cuda") for _ in range(2))
        given = dict(zip(tensors, (x, scale, bias, epsilon)))
        given.update({y: out, mean: out_mean, variance: out_variance})
        return finish(f"layer norm {rows}x{columns}", graph, given, [out, out_mean, out_variance])

    def matmul(rows, inner, columns):
        graph = cudnn.pygraph(io_data_type=half, intermediate_data_type=single, compute_data_type=single, handle=handle)
        a, b, bias = random(1, rows, inner), random(1, inner, columns), random(1, 1, columns)
        tensors = [graph.tensor_like(tensor) for tensor in (a, b, bias)]
        product = graph.matmul(tensors[0], tensors[1])
        result = graph.gelu(graph.bias(product, tensors[2]))
        result.set_output(True).set_data_type(half)
        out = torch.empty(1, rows, columns, device="cuda", dtype=torch.half)
        given = dict(zip(tensors, (a, b, bias)))
        given[result] = out
        return finish(f"matmul + bias + GELU {rows}x{inner}x{columns}", graph, given, [out])

    made = []
    for make, *dims in ((layer_norm, 1024, 768), (layer_norm, 512, 1024), (matmul, 512, 256, 384), (matmul, 256, 512, 512)):
        try:
            made.append(make(*dims))
        except Exception as error:
            made.append({"name": f"{make.__name__} {dims}", "failed": str(error)[:300]})
    return made


def work():
    start = time.perf_counter()
    import torch

    torch.zeros(1, device="cuda")
    imported = time.perf_counter()
    steps = []
    for index, shape in enumerate(SHAPES):
        seconds, forward, backward = attention(shape, index % 2 == 1)
        steps.append({"shape": shape, "seconds": seconds, "forward": forward, "backward": backward})
    # Warm: the cost of an execution.
    again = [attention(SHAPES[0], False)[0] for _ in range(50)]
    out = {"import": imported - start, "steps": steps, "warm": statistics.median(again), "cudnn": ctypes.CDLL("libcudnn.so.9").cudnnGetVersion()}
    try:
        out["frontend"] = frontend_graphs()
    except ImportError as error:
        out["frontend_missing"] = str(error)
    out["device"] = torch.cuda.get_device_name()
    print("RESULT " + json.dumps(out))


def finalizations(trace):
    """The durations in milliseconds of all finalizations of plans, in order."""
    with open(trace) as file:
        events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    found = []
    for event in events:
        if event.get("name") == "cudnnBackendFinalize" and event.get("ph") == "X":
            graph = event.get("args", {}).get("graph", "")
            if "; engine" in graph:
                found.append((event["ts"], event["dur"] / 1e3, graph))
    return [(duration, graph) for _, duration, graph in sorted(found)]


def run(drop_in, way, store, trace):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDNN_")}
    environment["CUDNN_PLANS_DIR"] = store
    if other := os.environ.get("PLANS_CUDNN"):
        environment["CUDNN_LOADER_DIR"] = other
    environment["LD_PRELOAD"] = drop_in
    layers = []
    if trace:
        layers.append("trace")
        environment["CUDNN_TRACE"] = trace
        environment["CUDNN_TRACE_ARGUMENTS"] = "0"
    if way == "pack":
        environment["CUDNN_PLANS_PACK"] = os.path.abspath(os.environ["PLANS_PACK"])
        environment["CUDNN_PLANS_DIR"] = store + "-pack"
    if way != "none":
        layers.append("plans")
    if layers:
        environment["CUDNN_LAYERS"] = ",".join(layers)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--work"], env=environment, capture_output=True, text=True, timeout=280
    )
    total = time.perf_counter() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        print(f"FAILED {way}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return None
    result = json.loads(lines[-1].removeprefix("RESULT "))
    result["total"] = total
    return result


def same(results, name):
    """Whether the digests of all results agree, by step."""
    rows = [[step[name] for step in result["steps"]] for result in results]
    return sum(len(set(column)) == 1 for column in zip(*rows)), len(rows[0])


def main():
    drop_in = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    scratch = tempfile.mkdtemp()
    ways = ["none", "cold", "warm"] + (["pack"] if "PLANS_PACK" in os.environ else [])
    results = {way: [] for way in ways}
    for number in range(rounds):
        store = os.path.join(scratch, f"store-{number}")
        for way in ways:
            result = run(drop_in, way, store, None)
            if result:
                results[way].append(result)
    store = os.path.join(scratch, "store-traced")
    traced = {}
    for way in ways:
        trace = os.path.join(scratch, f"{way}.json")
        if run(drop_in, way, store, trace):
            traced[way] = finalizations(trace)
    if not all(results.values()):
        sys.exit("a way has no results")
    first = results["none"][0]
    print(f"{first['device']}, cuDNN {first['cudnn']}, {rounds} rounds\n")
    print("| | " + " | ".join(ways) + " |\n| --- |" + " --- |" * len(ways))
    median = lambda values: statistics.median(values) if values else float("nan")

    def row(name, value):
        print(f"| {name} | " + " | ".join(f"{median([value(r) for r in results[way]]):.2f}" for way in ways) + " |")

    row("first step of a new shape, ms, median of 20", lambda r: median([s["seconds"] for s in r["steps"][1:]]) * 1e3)
    row("a warm step, ms", lambda r: r["warm"] * 1e3)
    row("the process, s", lambda r: r["total"])
    everything = [result for way in ways for result in results[way]]
    for name in ("forward", "backward"):
        print(f"\n{name}: the same bits in all {len(everything)} processes for %d of %d shapes" % same(everything, name))
        nones = same(results["none"], name)
        print(f"({name}, without the layer alone: %d of %d)" % nones)
    if "frontend" in first:
        print("\n| by cudnn-frontend: to build, ms | " + " | ".join(ways) + " | same bits |\n| --- |" + " --- |" * (len(ways) + 1))
        for index, made in enumerate(first["frontend"]):
            of = lambda way: [r["frontend"][index] for r in results[way]]
            if "failed" in made:
                print(f"| {made['name']} | {made['failed']} | | | |")
                continue
            times = [median([m.get("build", float("nan")) * 1e3 for m in of(way)]) for way in ways]
            digests = {m.get("digest") for way in ways for m in of(way)}
            print(f"| {made['name']} | " + " | ".join(f"{t:.1f}" for t in times) + f" | {len(digests) == 1} |")
    else:
        print("\ncudnn-frontend:", first.get("frontend_missing"))
    print("\nFinalizations of plans as a trace outside of `plans` has them, ms:\n")
    for way, found in traced.items():
        slow = [duration for duration, _ in found]
        print(f"- {way}: {len(slow)} plans, median {median(slow):.2f}, all {sum(slow):.1f}, slowest {max(slow, default=0):.1f}")
    pairs = [(a[0], c[0]) for a, c in zip(traced.get("none", []), traced.get("warm", [])) if a[0] > 5]
    if pairs and len(traced["none"]) == len(traced["warm"]):
        print(f"- of {len(pairs)} that took more than 5 ms without the layer: {median([a / b for a, b in pairs]):.1f} times faster, median; least {min(a / b for a, b in pairs):.1f}")
    shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--work"] else main()

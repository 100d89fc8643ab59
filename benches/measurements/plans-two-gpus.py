#!/usr/bin/env python3
"""Checks that GPUs of the same model share cached plans, with a store that one GPU has filled and another uses.

    plans-two-gpus.py DROP_IN     prints Markdown

Needs libcudnn_layers.so next to DROP_IN, PyTorch's Python, and two GPUs of the same model.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

SHAPES = [(2, 4, 192, 64), (1, 8, 256, 128), (3, 2, 320, 64), (1, 16, 512, 64)]


def work(devices):
    import hashlib

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = []
    for device in devices:
        for batch, heads, length, head in SHAPES:
            generator = torch.Generator().manual_seed(7)
            q, k, v = (torch.randn(batch, heads, length, head, generator=generator).half().to(f"cuda:{device}") for _ in range(3))
            with torch.cuda.device(device), sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
                torch.cuda.synchronize()
            found.append(hashlib.sha256(out.cpu().view(torch.uint8).numpy().tobytes()).hexdigest()[:16])
    print("RESULT " + json.dumps(found))


def run(drop_in, devices, store):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDNN_")}
    environment["LD_PRELOAD"] = drop_in
    if store:
        environment.update(CUDNN_LAYERS="plans", CUDNN_PLANS_DIR=store, CUDNN_PLANS_SUMMARY="stderr")
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--work", devices], env=environment, capture_output=True, text=True
    )
    result = [json.loads(line.removeprefix("RESULT ")) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    summary = [line.strip() for line in done.stderr.splitlines() if " restored in " in line or " built in " in line]
    return (result or [done.stderr[-2000:]])[0], "; ".join(summary)


def main(drop_in):
    drop_in = os.path.abspath(drop_in)
    with tempfile.TemporaryDirectory() as store:
        rows = [("without the layer", "0,1", None), ("device 0, empty store", "0", store), ("device 1, that store", "1", store),
                ("both, that store", "0,1", store)]
        print("| | devices | the same bits as without | plans |\n| --- | --- | --- | --- |")
        for name, devices, at in rows:
            result, summary = run(drop_in, devices, at)
            if name == "without the layer":
                expected = dict(zip("01", (result[: len(SHAPES)], result[len(SHAPES) :])))
            same = result == [digest for device in devices.split(",") for digest in expected[device]]
            print(f"| {name} | {devices} | {same} | {summary} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work([int(device) for device in sys.argv[2].split(",")])
    else:
        main(sys.argv[1])

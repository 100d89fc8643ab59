#!/usr/bin/env python3
"""Counts the crashes of a program that exits while the drop-in preloads.

exits-h200.py PROGRAM DIRECTORY_OF_THE_DROP_IN DIRECTORY_OF_CUDNN...

PROGRAM is exits.c, linked to the drop-in. It exits after 0 to 400 ms, in steps of 10 ms, with every value of
CUDNN_LOADER_PRELOAD."""

import os
import subprocess
import sys

program, drop_in, *libraries = sys.argv[1:]
VALUES = ["files", "files,contexts", "libraries", "engines"]
print("| end |" + "".join(f" `{value}` |" for value in VALUES) + "\n|" + " --- |" * (len(VALUES) + 1))
for how in ["main", "fork", "thread"]:
    cells = []
    for value in VALUES:
        crashed = 0
        for delay in range(0, 410, 10):
            environment = dict(os.environ, CUDNN_LOADER_PRELOAD=value, CUDNN_LOADER_DIR=libraries[0])
            environment["LD_LIBRARY_PATH"] = ":".join([drop_in, *libraries])
            ended = subprocess.run([program, how, str(delay * 1000)], env=environment, capture_output=True)
            crashed += ended.returncode != 0
        cells.append(f"{crashed} of 41")
    print(f"| {how} | {' | '.join(cells)} |", flush=True)

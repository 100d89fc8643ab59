#!/usr/bin/env python3
"""Shows what the core costs beside NVIDIA's shim and cudarc: a cold build, the system calls of a first call, the
instructions of a warm call, and the size of the library.

    cargo xtask dist
    benches/measurements/core.py target/dist/*/lib/libcudnn.so.9 DIR

DIR contains a full cuDNN, including NVIDIA's libcudnn.so.9. The command needs cargo, cc, strace and valgrind, and the
crates in cargo's cache. Numbers of one run are comparable; CPU seconds of different runs are not.
"""

import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("ROUNDS", "3"))
CALLS = 1000

# Opens a library and calls a function: once, and as often as the argument says.
C = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **args) {
    void *library = dlopen(args[2], RTLD_NOW);
    if (!library) { fputs(dlerror(), stderr); return 1; }
    size_t (*function)(void) = (size_t (*)(void))dlsym(library, "cudnnGetVersion");
    size_t version = function();
    for (int i = atoi(args[1]); i > 0; i--) function();
    printf("%zu\\n", version);
}
"""
RUST = """
fn main() {
    let count: u32 = std::env::args().nth(1).map_or(0, |count| count.parse().unwrap());
    let version = unsafe { CRATE::cudnnGetVersion() };
    for _ in 0..count {
        unsafe { CRATE::cudnnGetVersion() };
    }
    println!("{version}");
}
"""
CRATES = {
    "cudnn-loader": (f'cudnn-loader = {{ path = "{ROOT}/cudnn-loader" }}', "cudnn_loader"),
    "cudarc": (
        'cudarc = { version = "0.19", default-features = false, '
        'features = ["std", "cudnn", "dynamic-loading", "cuda-12000"] }',
        "cudarc::cudnn::sys",
    ),
}


def package(directory, name, dependency, path):
    (directory / "src").mkdir(parents=True)
    (directory / "src/main.rs").write_text(RUST.replace("CRATE", path))
    manifest = f'[package]\nname = "{name}-program"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n'
    (directory / "Cargo.toml").write_text(f"{manifest}[dependencies]\n{dependency}\n")


def build(directory, *args):
    """Builds a program, and returns the CPU seconds."""
    environment = os.environ | {"CARGO_INCREMENTAL": "0", "CARGO_TARGET_DIR": str(directory / "target")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["cargo", "build", "--quiet", "--offline", *args], cwd=directory, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold_build(directory):
    shutil.rmtree(directory / "target", ignore_errors=True)
    return build(directory)


def run(tool, command, variables):
    """Runs a program under a tool, and returns the tool's messages."""
    found = subprocess.run([*tool, *map(str, command)], env=variables, capture_output=True, text=True, check=True)
    assert int(found.stdout) >= 90000, found
    return found.stderr


def system_calls(command, variables):
    with tempfile.NamedTemporaryFile() as log:
        run(["strace", "-f", "-o", log.name], command("0"), variables)
        return sum("+++ exited" not in line for line in Path(log.name).read_text().splitlines())


def warm_instructions(command, variables):
    def total(count):
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        return int(re.search(r"Collected : (\d+)", run(tool, command(str(count)), variables))[1])

    return (total(2 * CALLS) - total(CALLS)) / CALLS


def main():
    drop_in, cudnn = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        for name, (dependency, path) in CRATES.items():
            package(work / name, name, dependency, path)
        seconds = {name: [] for name in CRATES}
        for _ in range(ROUNDS):
            for name in CRATES:
                seconds[name].append(cold_build(work / name))
        for name in CRATES:
            build(work / name, "--release")
        (work / "program.c").write_text(C)
        subprocess.run(["cc", "-O1", work / "program.c", "-o", work / "program", "-ldl"], check=True)

        def library(file):
            return lambda count: [work / "program", count, file]

        def rust(name):
            return lambda count: [work / name / "target/release" / f"{name}-program", count]

        search, named = {"LD_LIBRARY_PATH": str(cudnn)}, {"CUDNN_LOADER_DIR": str(cudnn)}
        shim = cudnn / "libcudnn.so.9"
        rows = [
            ("NVIDIA's shim", library(shim), search, shim.stat().st_size, None),
            ("cudarc, through NVIDIA's shim", rust("cudarc"), search, None, seconds["cudarc"]),
            ("drop-in, CUDNN_LOADER_DIR", library(drop_in), named, drop_in.stat().st_size, None),
            ("drop-in, LD_LIBRARY_PATH", library(drop_in), search, drop_in.stat().st_size, None),
            ("cudnn-loader, CUDNN_LOADER_DIR", rust("cudnn-loader"), named, None, seconds["cudnn-loader"]),
        ]
        print("| | system calls | ratio | instructions of a warm call | bytes | cold build, CPU s | ratio |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        first = None
        for name, command, variables, size, built in rows:
            calls = system_calls(command, variables)
            first = first or calls
            warm = warm_instructions(command, variables)
            cost = ["", ""]
            if built:
                median = statistics.median(built)
                cost = [f"{median:.1f}", f"{median / statistics.median(seconds['cudarc']):.2f}"]
            size = f"{size:,}" if size else ""
            print(f"| {name} | {calls} | {calls / first:.2f} | {warm:.0f} | {size} | {cost[0]} | {cost[1]} |")


main()

#!/usr/bin/env python3
"""Measures the time from the start of a program to the end of its first convolution: lazily through NVIDIA's shim,
lazily through the drop-in, and preloaded.

    preload-h200.py START DROP_IN DOCTOR CUDNN_DIR [LINKED]

START is start.c, compiled; CUDNN_DIR contains cuDNN and NVIDIA's shim; LINKED is start.c linked to the drop-in, for the rows
with CUDNN_LOADER_PRELOAD, which only affects linked programs.

The configurations take turns and run ten times each, in new processes. The numbers are medians in milliseconds. Prints
Markdown. For a cold page cache, the kernel drops the pages of all files of cuDNN, cuBLAS, NVRTC and the driver
(posix_fadvise, POSIX_FADV_DONTNEED) before every process.
"""
import glob, os, statistics, subprocess, sys, tempfile

start, drop_in, doctor, cudnn_dir = (os.path.abspath(path) for path in sys.argv[1:5])
files = [f for pattern in (cudnn_dir + "/*.so*", cudnn_dir + "/../../cu13/lib/*.so*", "/usr/local/nvidia/lib64/*.so*", drop_in)
         for f in glob.glob(pattern) if os.path.isfile(f)]
environment = {k: v for k, v in os.environ.items() if not k.startswith("LD_")} | {"CUDNN_LOADER_DIR": cudnn_dir}
pages_dir = tempfile.mkdtemp()
environment["CUDNN_PLANS_DIR"] = pages_dir
RUNS = {
    "the driver and a context alone": [cudnn_dir + "/libcudnn.so.9", "floor"],
    "lazily, NVIDIA's shim": [cudnn_dir + "/libcudnn.so.9", "lazily"],
    "lazily, the drop-in": [drop_in, "lazily"],
    "preloaded, the drop-in": [drop_in, "preload"],
    "preloaded, with the pages of a preload": [drop_in, "preload", "pages=preload"],
    "preloaded, with the pages of the program": [drop_in, "preload", "pages=program"],
}
linked = os.path.abspath(sys.argv[5]) if len(sys.argv) > 5 else None
if linked:
    for words in ("files", "files,contexts", "files,contexts,engines"):
        RUNS[f"`CUDNN_LOADER_PRELOAD={words}`"] = [drop_in, "lazily", words]
        RUNS[f"`CUDNN_LOADER_PRELOAD={words}`, with the pages of the program"] = [drop_in, "lazily", words, "pages=program"]


def drop_from_cache():
    for file in files:
        try:
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        except OSError:
            pass


def run(args):
    (library, way, *words) = args
    command, variables = [start, library, way], environment
    if words and words[-1].startswith("pages="):
        variables = variables | {"CUDNN_LOADER_PAGES": f"{pages_dir}/{words.pop()[6:]}.pages"}
    if words:
        command[0] = linked
        variables = variables | {"CUDNN_LOADER_PRELOAD": words[0], "LD_LIBRARY_PATH": os.path.dirname(drop_in)}
    output = subprocess.run(command, env=variables, capture_output=True, text=True)
    if output.returncode:
        sys.exit(f"{args}: {output.stderr}")
    return [float(number) for number in output.stdout.split()]


def keep_pages():
    """Keeps the lists of pages of a preload, and of the program itself."""
    def kept(name, *args):
        done = subprocess.run([doctor, "preload", "--keep", f"{pages_dir}/{name}.pages", *args], env=environment,
                              capture_output=True, text=True)
        print(f"{name}:", (done.stdout + done.stderr).strip().splitlines()[-2:])

    kept("preload")
    program = subprocess.Popen([start, drop_in, "preload", "hold"], env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    kept("program", "--of", str(program.pid))
    program.stdin.close()
    program.wait()


keep_pages()
for cache in ("warm", "cold"):
    results = {way: [] for way in RUNS}
    for args in RUNS.values():
        run(args)
    for _ in range(10):
        for way, args in RUNS.items():
            if cache == "cold":
                drop_from_cache()
            results[way].append(run(args))
    print(f"\n## Page cache {cache}\n\n| | total | ratio | preload | handle | workspace query | first convolution | second |")
    print("| --- |" + " --- |" * 7)
    base = statistics.median(numbers[0] for numbers in results["lazily, NVIDIA's shim"])
    for way, rows in results.items():
        medians = [statistics.median(column) for column in zip(*rows)]
        if len(medians) == 3:
            print(f"| {way} | {medians[0]:.1f} | {medians[0] / base:.2f} | cuInit {medians[1]:.1f} | context {medians[2]:.1f} | | | |")
        else:
            total, rest = medians[0], medians[1:]
            print(f"| {way} | {total:.1f} | {total / base:.2f} | " + " | ".join(f"{number:.2f}" for number in rest) + " |")
        spread = [numbers[0] for numbers in rows]
        print(f"<!-- {way}: {min(spread):.1f} to {max(spread):.1f} -->")

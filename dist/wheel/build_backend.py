"""Builds the wheel with maturin, and adds the drop-in and the layers, because maturin compiles only the doctor."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from maturin import *  # The hooks that need no libraries.
import maturin

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dist/wheel/cudnn_shim"
# The file names that cargo creates, and their places in the package.
LIBRARIES = {
    "libcudnn.so": "lib/libcudnn.so.9",
    "libcudnn_layers.so": "lib/libcudnn_layers.so",
    "cudnn.dll": "bin/cudnn64_9.dll",
    "cudnn_layers.dll": "bin/cudnn_layers.dll",
}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not shutil.which("cargo"):
        # maturin requires this package on machines without Rust, and uses it in the same way.
        from puccinialin import setup_rust

        os.environ.update(setup_rust())
    # `cargo xtask release-files` provides a directory with libraries for another target or an older glibc.
    add_files(os.environ.get("CUDNN_SHIM_WHEEL_FILES") or build_libraries())
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("there is no source distribution: install from a checkout or a Git URL, or build a wheel")


def build_libraries():
    """Compiles the libraries, and returns a directory with them."""
    packages = ["--package=cudnn-shim", "--package=cudnn-layers-library"]
    command = ["cargo", "build", "--locked", "--profile=dist", "--message-format=json-render-diagnostics", *packages]
    environment = {**os.environ, "CARGO_PROFILE_DIST_STRIP": "symbols"}
    output = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE).stdout
    directory = None
    for message in map(json.loads, output.splitlines()):
        for file in map(Path, message.get("filenames", [])):
            if file.name in LIBRARIES:
                directory = file.parent / "wheel"
                place = directory / LIBRARIES[file.name]
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, place)
    return directory


def add_files(directory):
    """Replaces the files in the package that the repository does not contain."""
    for name in ["bin", "include", "lib"]:
        shutil.rmtree(PACKAGE / name, ignore_errors=True)
    (PACKAGE / "include").mkdir()
    for header in ["cudnn_layer.h", "cudnn_shim.h"]:
        shutil.copy2(ROOT / "dist" / header, PACKAGE / "include")
    shutil.copytree(directory, PACKAGE, dirs_exist_ok=True)

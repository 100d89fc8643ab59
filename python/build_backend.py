"""Builds the wheel with maturin, and adds the lab, the drop-in and the layers, because maturin compiles only the doctor."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import maturin
from maturin import get_requires_for_build_wheel, prepare_metadata_for_build_wheel

ROOT = Path(__file__).resolve().parents[1]
# The file names that cargo creates, and their places in the package, or the scripts of the wheel.
LIBRARIES = {
    "libcudnn.so": "lib/libcudnn.so.9",
    "libcudnn_layers.so": "lib/libcudnn_layers.so",
    "cudnn.dll": "bin/cudnn64_9.dll",
    "cudnn_layers.dll": "bin/cudnn_layers.dll",
}
PROGRAMS = ["cudnn-lab", "cudnn-lab.exe"]
HEADERS = ["cudnn_layer.h", "cudnn_shim.h"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if not shutil.which("cargo"):
        # maturin requires this package on machines without Rust, and uses it in the same way.
        from puccinialin import setup_rust

        os.environ.update(setup_rust())
    # `pip install --config-settings profile=dev .` selects cargo's profile.
    profile = (config_settings or {}).get("profile")
    if profile:
        config_settings = {**config_settings, "maturin.build-args": f"--profile={profile}"}
    with tempfile.TemporaryDirectory() as temporary:
        name = maturin.build_wheel(temporary, config_settings, metadata_directory)
        wheel("unpack", Path(temporary, name), "--dest", temporary)
        (unpacked,) = (path.parent for path in Path(temporary).glob("*/cudnn_shim"))
        (scripts,) = unpacked.glob("*.data/scripts")
        add_files(unpacked / "cudnn_shim", scripts, profile)
        # The same files become the same wheel, with any umask.
        for path in unpacked.rglob("*"):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")
        wheel("pack", unpacked, "--dest-dir", wheel_directory)
    return name


# An editable installation is a normal one, because nothing in it is Python code to edit.
build_editable = build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


class UnsupportedOperation(Exception):
    """The exception of PEP 517 for operations that a backend does not support."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("there is no source distribution: build a wheel from a checkout or a Git URL")


def wheel(*arguments):
    subprocess.run([sys.executable, "-m", "wheel", *map(str, arguments)], check=True)


def add_files(package, scripts, profile):
    # `cargo xtask release-files` provides a directory with files for another target or an older glibc.
    given = os.environ.get("CUDNN_SHIM_WHEEL_FILES")
    if given:
        shutil.copytree(given, package, dirs_exist_ok=True)
        for file in Path(package, "scripts").iterdir():
            shutil.move(file, scripts / file.name)
        Path(package, "scripts").rmdir()
    else:
        (lab,) = (file for file in compiled_files(profile or "source", "cudnn-lab") if file.name in PROGRAMS)
        put(lab, scripts / lab.name)
        files = compiled_files(profile or "dist", "cudnn-shim", "cudnn-layers-library")
        libraries = [file for file in files if file.name in LIBRARIES]
        if len(libraries) != 2:
            sys.exit(f"cudnn-shim supports Linux with glibc and Windows, but cargo built only {libraries}")
        for file in libraries:
            put(file, package / LIBRARIES[file.name])
    for header in HEADERS:
        put(ROOT / "dist" / header, package / "include" / header)


def put(file, place):
    place.parent.mkdir(exist_ok=True)
    shutil.copy2(file, place)


def compiled_files(profile, *packages):
    """Compiles these packages with a profile of cargo, and returns all files that cargo created."""
    command = ["cargo", "build", "--locked", f"--profile={profile}", *(f"--package={package}" for package in packages)]
    command.append("--message-format=json-render-diagnostics")
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    return [Path(file) for line in output.splitlines() for file in json.loads(line).get("filenames", [])]

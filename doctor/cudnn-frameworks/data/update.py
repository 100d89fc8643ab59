#!/usr/bin/env python3
"""Updates the facts about framework releases in frameworks.json from the package index: `cargo xtask frameworks`.

usage: update.py [--check | --verify] [FILE]

  --check    fail if rows would be added, without writing the file
  --verify   compare the rows with the metadata of all releases that they describe
"""

import concurrent.futures
import datetime
import http.client
import io
import itertools
import json
import pathlib
import sys
import time
import urllib.error
import urllib.request
import zipfile
from email.parser import Parser

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.version import InvalidVersion, Version

# The platform that the requirements are read for. The Python version is that of this interpreter.
PLATFORM = {"os_name": "posix", "platform_machine": "x86_64", "platform_system": "Linux", "sys_platform": "linux"}


def get(url, **headers):
    """Returns the headers and the body of the response. Tries again if the server or the network fails."""
    request = urllib.request.Request(url, headers=headers)
    for pause in (1, 5, None) if url.startswith("http") else (None,):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                if "Range" in headers and response.status != 206:
                    raise OSError("the server does not send parts of a file")
                return response.headers, response.read()
        except (OSError, http.client.HTTPException) as error:
            is_final = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if is_final or pause is None:
                raise OSError(f"{url}: {error}") from error
            time.sleep(pause)


class Remote(io.RawIOBase):
    """A file on a server, read by ranges."""

    def __init__(self, url):
        self.url, self.at = url, 0
        # `bytes 0-0/554903621`
        headers, _ = get(url, Range="bytes=0-0")
        self.size = int(headers["Content-Range"].rpartition("/")[2])

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer):
        end = min(self.at + len(buffer), self.size)
        if end <= self.at:
            return 0
        _, data = get(self.url, Range=f"bytes={self.at}-{end - 1}")
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def metadata(wheel):
    """Returns the metadata of a wheel, which some indexes also provide as a separate file (PEP 658)."""
    if wheel.get("core-metadata"):
        return get(f"{wheel['url']}.metadata")[1].decode(errors="replace")
    with zipfile.ZipFile(io.BufferedReader(Remote(wheel["url"]), 1 << 17)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode(errors="replace")


def version(filename):
    """Returns the version in the name of a wheel or a source archive, or None for pre-releases and other files."""
    if filename.endswith(".tar.gz"):
        text = filename[: -len(".tar.gz")].rpartition("-")[2]
    elif filename.endswith(".whl"):
        text = filename.split("-")[1]
    else:
        return None
    try:
        parsed = Version(text)
    except InvalidVersion:
        return None
    return None if parsed.is_prerelease else parsed


def releases(newest):
    """Returns the final releases of a package that were not withdrawn, oldest first, each with a wheel for Linux."""
    _, page = get(newest["url"].replace("/project/", "/simple/"), Accept="application/vnd.pypi.simple.v1+json")
    found = {}
    for file in json.loads(page)["files"]:
        parsed = version(file["filename"])
        if parsed is not None and not file.get("yanked"):
            is_for_linux = "linux" in file["filename"] and file["filename"].endswith("x86_64.whl")
            found[parsed] = found.get(parsed) or (file if is_for_linux else None)
    return sorted(found.items(), key=lambda release: release[0])


def requires(text):
    """Returns the oldest cuDNN and the CUDA release in metadata with all extras, or None if it requires no cuDNN."""
    headers = Parser().parsestr(text)
    extras = ["", *headers.get_all("Provides-Extra", [])]
    cudnn = cuda = major = None
    for requirement in map(Requirement, headers.get_all("Requires-Dist", [])):
        marker = requirement.marker
        if marker and not any(marker.evaluate({**PLATFORM, "extra": extra}) for extra in extras):
            continue
        bounds = [spec for spec in requirement.specifier if spec.operator in ("==", ">=", "~=")]
        numbers = Version(bounds[0].version.removesuffix(".*")).release if bounds else None
        if requirement.name.startswith("nvidia-cudnn-cu") and numbers:
            cudnn = cudnn or ".".join(map(str, (numbers + (0, 0))[:3]))
            major = major or requirement.name[len("nvidia-cudnn-cu") :]
        is_runtime = requirement.name == "cuda-toolkit" or requirement.name.startswith("nvidia-cuda-runtime")
        # A range does not reveal the release that a framework was built with.
        if is_runtime and bounds and bounds[0].operator == "==":
            cuda = cuda or ".".join(map(str, numbers[:2]))
    return (cudnn, cuda or major) if cudnn else None


def required(described):
    """Reads the requirements of those releases that have a wheel for Linux."""
    described = [(number, wheel) for number, wheel in described if wheel]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        texts = threads.map(metadata, [wheel for _, wheel in described])
        return [(number, requires(text)) for (number, _), text in zip(described, texts)]


def stated(fact):
    return fact["cudnn"], fact["cuda"]


def facts_about(data, newest):
    return [fact for fact in data["facts"] if fact["package"] == newest["package"]]


def add(data, newest):
    """Adds a fact for each newer release with other requirements. Returns the questions for a person."""
    today, known = str(datetime.date.today()), Version(newest["version"])
    newer = [(number, wheel) for number, wheel in releases(newest) if number > known]
    last = facts_about(data, newest)[-1]
    if newer and last["evidence"] != "metadata":
        return [
            f"{newest['package']} {newer[-1][0]} is newer than {known}, and the last row was read from a "
            f"{last['evidence']}: {last['url']}"
        ]
    for number, found in required(newer):
        if found is None:
            return [f"{newest['package']} {number}: the metadata requires no cuDNN"]
        if found != stated(last):
            fact = {**last, "since": str(number), "cudnn": found[0], "cuda": found[1], "date": today}
            fact.pop("note", None)
            data["facts"].insert(data["facts"].index(last) + 1, fact)
            last = fact
        newest.update(version=str(number), date=today)
    return []


def wrong(data, newest):
    """Returns the rows about a package that differ from the metadata of the releases that they describe."""
    facts = facts_about(data, newest)
    if all(fact["evidence"] != "metadata" for fact in facts):
        return []
    first, last = Version(facts[0]["since"]), Version(newest["version"])
    found = required(release for release in releases(newest) if first <= release[0] <= last)
    numbers = [number for number, _ in found]
    missing = [fact["since"] for fact in facts if Version(fact["since"]) not in numbers]
    problems = [f"{newest['package']} has no release {since}" for since in missing]
    for number, requirements in found:
        fact = [fact for fact in facts if Version(fact["since"]) <= number][-1]
        # Older releases of ONNX Runtime define no extras.
        is_right = requirements == stated(fact) if requirements else fact["evidence"] != "metadata"
        if not is_right:
            problems.append(f"{newest['package']} {number}: {requirements}, but {fact}")
    return problems


def text(data):
    """Returns the file with one line per row."""
    rows = lambda name: ",\n".join(f"    {json.dumps(row, ensure_ascii=False)}" for row in data[name])
    return "{\n" + ",\n".join(f'  "{name}": [\n{rows(name)}\n  ]' for name in ("newest", "facts")) + "\n}\n"


def main(arguments):
    options = [argument for argument in arguments if argument.startswith("--")]
    paths = [argument for argument in arguments if not argument.startswith("--")]
    if options not in ([], ["--check"], ["--verify"]) or len(paths) > 1:
        return __doc__
    file = pathlib.Path(paths[0]) if paths else pathlib.Path(__file__).with_name("frameworks.json")
    old = file.read_text()
    data = json.loads(old)
    if options == ["--verify"]:
        problems = itertools.chain.from_iterable(wrong(data, newest) for newest in data["newest"])
        return "\n".join(problems) or None
    undecided = [question for newest in data["newest"] for question in add(data, newest)]
    new = text(data)
    for line in new.splitlines():
        if line not in old.splitlines():
            print(line.strip())
    if undecided:
        print("To decide: if something changed, add a row to `facts`. Then set `version` and `date` in `newest`.")
        print("\n".join(f"  {question}" for question in undecided))
    if new == old:
        print(f"{file} is up to date with the metadata on the package index.")
    elif options:
        return f"{file} is out of date; run `cargo xtask frameworks`"
    else:
        file.write_text(new)
    return None


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.exit(f"cannot read from the package index: {error}")

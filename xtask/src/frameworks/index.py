"""Prints pages of a package index and the metadata in wheels: `python3 -c SCRIPT page URL`, or `metadata URL...`.

Reads the end of a wheel and the file METADATA by byte-range requests, and writes JSON with one text per URL.
"""

import concurrent.futures
import io
import json
import sys
import time
import urllib.error
import urllib.request
import zipfile


def get(url, **headers):
    """Returns the headers and the body of the response. Tries again if the server or the network fails."""
    request = urllib.request.Request(url, headers=headers)
    for pause in (1, 5, None):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.headers, response.read()
        except OSError as error:
            is_final = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if is_final or pause is None:
                raise OSError(f"{url}: {error}") from error
            time.sleep(pause)


class Remote(io.RawIOBase):
    """A file on a server, read by ranges."""

    def __init__(self, url):
        self.url, self.at = url, 0
        headers, _ = get(url, Range="bytes=0-0")
        # `bytes 0-0/554903621`; a server without ranges would send the whole file.
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


def page(url):
    return get(url, Accept="application/vnd.pypi.simple.v1+json")[1].decode()


def metadata(url):
    with zipfile.ZipFile(io.BufferedReader(Remote(url), 1 << 17)) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return wheel.read(name).decode(errors="replace")


with concurrent.futures.ThreadPoolExecutor(4) as threads:
    command = {"page": page, "metadata": metadata}[sys.argv[1]]
    try:
        json.dump(list(threads.map(command, sys.argv[2:])), sys.stdout)
    except OSError as error:
        sys.exit(str(error))

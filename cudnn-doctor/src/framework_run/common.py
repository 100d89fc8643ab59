# The part of the scripts that all frameworks share: runs steps, and reports each to the doctor as a line of JSON.
# Standard input is a pipe to the doctor, because frameworks print to the other two streams.
import json
import os
import sys

# No modules of the working directory.
sys.path[:] = [path for path in sys.path if path]

CHANNEL = os.dup(0)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

# Longer texts lose their middle.
MAX_TEXT_PART = 8000


class OnCpu(Exception):
    """The framework computes on the CPU, for this reason."""


class Skipped(Exception):
    """A step does not apply, for this reason."""


def send(message):
    line = json.dumps(message).encode() + b"\n"
    while line:
        line = line[os.write(CHANNEL, line):]


def plain(value):
    """The value as text that JSON can carry."""
    try:
        text = str(value)
    except Exception:
        text = type(value).__name__
    text = text.encode("utf-8", "replace").decode()
    if len(text) > 2 * MAX_TEXT_PART:
        text = text[:MAX_TEXT_PART] + "\n...\n" + text[-MAX_TEXT_PART:]
    return text


def libraries():
    """The files of cuDNN that this process has mapped."""
    found = {}
    try:
        with open("/proc/self/maps", errors="surrogateescape") as maps:
            for line in maps:
                path = line.rstrip("\n").split(None, 5)[5:]
                if path and os.path.basename(path[0]).startswith("libcudnn"):
                    found[path[0]] = None
    except OSError:
        pass
    return [plain(path) for path in found]


def log_length():
    try:
        return os.path.getsize(os.environ["CUDNN_LOGDEST_DBG"])
    except (KeyError, OSError):
        return 0


def message_of(error):
    text = plain(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def step(name, clause, function):
    """Runs one step. Returns whether it worked. The function returns a text about its result."""
    sys.stdout.flush()
    sys.stderr.flush()
    send({"begin": name, "log": log_length(), "libraries": libraries()})
    send({"step": "compute", "text": clause})
    # The part of stderr that belongs to this step follows this line.
    os.write(2, b"\n\x1e" + name.encode() + b"\n")
    try:
        result = {"outcome": "done", "text": plain(function() or "")}
    except OnCpu as reason:
        result = {"outcome": "cpu", "text": plain(reason)}
    except Skipped as reason:
        result = {"outcome": "skipped", "text": plain(reason)}
    except BaseException as error:
        # The first error of a chain is the cause of the others.
        chain = [error]
        while len(chain) < 10 and (chain[-1].__cause__ or chain[-1].__context__):
            chain.append(chain[-1].__cause__ or chain[-1].__context__)
        result = {"outcome": "failed", "text": message_of(error), "causes": [message_of(one) for one in chain[1:]]}
    result.update({"end": name, "libraries": libraries()})
    send(result)
    return result["outcome"] in ("done", "skipped")


def report_version(*packages):
    """Reports the version of the first of these packages that is installed, before anything of it is imported."""
    try:
        from importlib import metadata
    except ImportError:
        return
    for package in packages:
        try:
            send({"version": plain(metadata.version(package))})
            return
        except Exception:
            pass


def finish():
    sys.stdout.flush()
    sys.stderr.flush()
    send({"finished": True})
    # Nothing that the framework does at the end is of interest.
    os._exit(0)


def check_equal(name, got, expected, tolerance):
    """Compares two flat sequences of numbers. Returns a text, or raises."""
    got, expected = [float(value) for value in got], [float(value) for value in expected]
    if len(got) != len(expected):
        raise ValueError(f"the result of the {name} has {len(got)} elements, not {len(expected)}")
    scale = max([abs(value) for value in expected] + [1e-6])
    # A NaN is greater than nothing, so it must fail the comparison.
    error = max([abs(a - b) if a == a else float("inf") for a, b in zip(got, expected)] + [0.0]) / scale
    if not error <= tolerance:
        raise ValueError(f"the result of the {name} is wrong: it differs from the CPU's by {error:.2g} of its maximum")
    return f"correct (relative error {error:.1g})"


def small_integers(count):
    """Inputs that every data type represents exactly."""
    return [(index * 7 % 5) - 2 for index in range(count)]


def release(number):
    """9.10.2 from 91002, and 8.9.7 from 8907."""
    number = int(number)
    if number >= 10000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


# numpy's results, for frameworks that need numpy anyway.


def numpy_convolution(x, w):
    """Of NCHW and OIHW, without padding."""
    import numpy

    height, width = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    y = numpy.zeros((x.shape[0], w.shape[0], height, width), "float32")
    for row in range(w.shape[2]):
        for column in range(w.shape[3]):
            part = x[:, :, row:row + height, column:column + width]
            y += numpy.einsum("nchw,oc->nohw", part, w[:, :, row, column])
    return y


def numpy_attention(q, k, v):
    """Of (batch, length, heads, size)."""
    import numpy

    scores = numpy.einsum("bqhd,bkhd->bhqk", q, k) / numpy.sqrt(q.shape[-1])
    scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return numpy.einsum("bhqk,bkhd->bqhd", scores / scores.sum(axis=-1, keepdims=True), v)

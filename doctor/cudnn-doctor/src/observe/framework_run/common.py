# The part of the scripts that all frameworks share: runs steps, and reports each to the doctor as a line of JSON.
#
# Standard input is a socket to the doctor, because frameworks print to the other two streams. The doctor has sent a token
# through it, which begins each line, so that no other module can send lines by chance or blindly. It is read before
# anything is imported: `posix` is a part of the interpreter. (Code that the interpreter itself runs first, such as
# sitecustomize, could read it. That code can replace the framework as well.)
import posix

posix.set_blocking(0, False)
try:
    TOKEN = posix.read(0, 33)[:32]
except OSError:
    TOKEN = b""
posix.set_blocking(0, True)
CHANNEL = posix.dup(0)
posix.dup2(posix.open("/dev/null", posix.O_RDONLY), 0)
PROCESS = posix.getpid()
if len(TOKEN) != 32:
    posix.write(2, b"a module that Python imports at its start has read the standard input, or has forked\n")
    posix._exit(1)

import json
import os
import sys

# No modules of the working directory.
sys.path[:] = [path for path in sys.path if path]

# Longer texts lose their middle.
MAX_TEXT_PART = 8000


class OnCpu(Exception):
    """The framework computes on the CPU, for this reason."""


class Skipped(Exception):
    """A step does not apply, for this reason."""


def send(message):
    # Not from a copy of this process.
    if os.getpid() != PROCESS:
        return
    line = TOKEN + json.dumps(message).encode() + b"\n"
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


def file_of(error):
    """The file with the code that raised the error."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    file = place.tb_frame.f_code.co_filename if place is not None else ""
    return file if os.path.isabs(file) else None


def step(name, clause, function):
    """Runs one step. Returns its outcome. The function returns a text about its result."""
    sys.stdout.flush()
    sys.stderr.flush()
    send({"begin": name, "log": log_length(), "libraries": libraries()})
    send({"work": "Compute", "text": clause})
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
        result["file"] = file_of(chain[-1])
    result.update({"end": name, "libraries": libraries()})
    send(result)
    return result["outcome"]


def version_of(package):
    """The version of an installed package, or None."""
    try:
        from importlib import metadata

        return plain(metadata.version(package))
    except Exception:
        return None


def report_origin(module, packages):
    """Reports what is installed, before anything of it is imported: the version by the first of these packages that is
    installed, and the file of the module."""
    send({"prefix": plain(sys.prefix)})
    for package in packages:
        version = version_of(package)
        if version is not None:
            send({"version": version, "package": package})
            break
    try:
        from importlib import util

        origin = util.find_spec(module).origin
    except Exception:
        origin = None
    if origin:
        send({"module": plain(origin)})


# What the process did in a step, by the name of the step. A framework's name follows.
CLAUSES = {
    "cudnn": "asked {} for the version of cuDNN",
    "device": "started CUDA in {}",
    "convolution": "ran a convolution in {}",
    "attention": "ran an attention in {}",
    "rnn": "ran an LSTM in {}",
}


def run(name, module, packages, describe, *functions):
    """Imports a framework, then runs these functions as steps, which have their names. `describe` takes the module, and
    returns a text about its build. Nothing follows a framework that is not there or computes on the CPU."""
    report_origin(module, packages)

    def import_it():
        import importlib

        imported = importlib.import_module(module)
        globals()[module] = imported
        if hasattr(imported, "__version__"):
            send({"version": plain(imported.__version__)})
        return describe(imported)

    steps = [("import", f"imported {module}", import_it)]
    for function in functions:
        steps.append((function.__name__, CLAUSES[function.__name__].format(name), function))
    for one in steps:
        outcome = step(*one)
        if outcome == "cpu" or outcome == "failed" and one[0] in ("import", "device"):
            break
    finish()


def no_cuda(name, more=""):
    """Raises for a framework without CUDA."""
    raise OnCpu(f"this {name} is built without CUDA{more}")


def no_gpu(reason):
    """Raises for a framework that sees no GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        raise OnCpu(f"CUDA_VISIBLE_DEVICES={visible} hides the GPUs")
    raise OnCpu(reason)


def finish():
    sys.stdout.flush()
    sys.stderr.flush()
    send({"finished": True})
    # Nothing that the framework does at the end is of interest.
    os._exit(0)


def check_equal(name, got, expected, tolerance):
    """Compares two arrays or flat lists of numbers. Returns a text, or raises."""
    got, expected = [
        [float(value) for value in (values.ravel() if hasattr(values, "ravel") else values)]
        for values in (got, expected)
    ]
    if len(got) != len(expected):
        raise ValueError(f"the result of the {name} has {len(got)} elements, not {len(expected)}")
    scale = max([abs(value) for value in expected] + [1e-6])
    # A NaN is greater than nothing, so it must fail the comparison.
    error = max([abs(a - b) if a == a else float("inf") for a, b in zip(got, expected)] + [0.0]) / scale
    if not error <= tolerance:
        raise ValueError(f"the result of the {name} is wrong: it differs from the CPU's by {error:.2g} of its maximum")
    return f"correct (relative error {error:.1g})"


# The shapes of the inputs: NCHW and OIHW; the attention's in the order that the framework takes; length, batch and size.
IMAGE, FILTER = (2, 16, 12, 12), (8, 16, 3, 3)
SEQUENCE, HIDDEN = (5, 2, 16), 16
TOLERANCE = 1e-2


def small_integers(count):
    """Inputs that every data type represents exactly."""
    return [(index * 7 % 5) - 2 for index in range(count)]


def release(number):
    """9.10.2 from 91002, and 8.9.7 from 8907."""
    number = int(number)
    if number >= 10000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


# numpy's inputs and results, for frameworks that need numpy anyway.


def array(*shape):
    import numpy

    return numpy.array(small_integers(int(numpy.prod(shape))), "float32").reshape(shape)


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

# ONNX Runtime's steps. A model is a few bytes of protobuf, written here.
report_version("onnxruntime-gpu", "onnxruntime")

CUDA = "CUDAExecutionProvider"


def import_onnxruntime():
    global onnxruntime
    import onnxruntime

    send({"version": plain(onnxruntime.__version__)})
    available = onnxruntime.get_available_providers()
    if CUDA not in available:
        raise OnCpu(f"this build of ONNX Runtime has no {CUDA}, only {', '.join(available)}")
    return ""


def number(value):
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes(encoded) + bytes([value])


def field(index, value):
    if isinstance(value, int):
        return number(index << 3) + number(value)
    if isinstance(value, str):
        value = value.encode()
    return number(index << 3 | 2) + number(len(value)) + value


def tensor(name, shape):
    dims = b"".join(field(1, field(1, length)) for length in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def model(operator, inputs, output, attributes=()):
    """A model of one operator, of float32. Inputs and the output are pairs of a name and a shape."""
    node = b"".join(field(1, name) for name, _ in inputs) + field(2, output[0]) + field(4, operator)
    for name, value in attributes:
        # An attribute of type INT.
        node += field(5, field(1, name) + field(3, value) + field(20, 2))
    graph = field(1, node) + field(2, "graph") + b"".join(field(11, tensor(*one)) for one in inputs)
    graph += field(12, tensor(*output))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def compare(name, model, inputs, tolerance):
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(model, options, providers=[CUDA])
    if CUDA not in session.get_providers():
        raise OnCpu(f"a session with {CUDA} runs on {', '.join(session.get_providers())}")
    got = session.run(None, inputs)[0]
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return check_equal(name, got.ravel(), session.run(None, inputs)[0].ravel(), tolerance)


def array(*shape):
    import numpy

    return numpy.array(small_integers(int(numpy.prod(shape))), "float32").reshape(shape)


def convolution():
    inputs = [("x", (2, 16, 12, 12)), ("w", (8, 16, 3, 3))]
    arrays = {name: array(*shape) for name, shape in inputs}
    return compare("convolution", model("Conv", inputs, ("y", (2, 8, 10, 10))), arrays, 1e-2)


def rnn():
    inputs = [("x", (5, 2, 16)), ("w", (1, 64, 16)), ("r", (1, 64, 16))]
    arrays = {name: array(*shape) / 8 for name, shape in inputs}
    lstm = model("LSTM", inputs, ("y", (5, 1, 2, 16)), [("hidden_size", 16)])
    return compare("RNN", lstm, arrays, 1e-2)


if step("import", "imported onnxruntime", import_onnxruntime):
    if step("convolution", "ran a convolution in ONNX Runtime", convolution):
        step("rnn", "ran an LSTM in ONNX Runtime", rnn)
finish()

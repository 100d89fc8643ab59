# ONNX Runtime's steps. A model is a few bytes of protobuf, written here.
CUDA = "CUDAExecutionProvider"


def describe(onnxruntime):
    available = onnxruntime.get_available_providers()
    if CUDA not in available:
        no_cuda("ONNX Runtime", f": it has {' and '.join(available)}")
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


def compare(name, model, inputs):
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(model, options, providers=[CUDA])
    if CUDA not in session.get_providers():
        no_gpu(f"a session with {CUDA} runs on {', '.join(session.get_providers())}")
    got = session.run(None, inputs)[0]
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return check_equal(name, got, session.run(None, inputs)[0], TOLERANCE)


def convolution():
    inputs = [("x", IMAGE), ("w", FILTER)]
    arrays = {name: array(*shape) for name, shape in inputs}
    return compare("convolution", model("Conv", inputs, ("y", (2, 8, 10, 10))), arrays)


def rnn():
    length, batch, size = SEQUENCE
    inputs = [("x", SEQUENCE), ("w", (1, 4 * HIDDEN, size)), ("r", (1, 4 * HIDDEN, HIDDEN))]
    arrays = {name: array(*shape) / 8 for name, shape in inputs}
    lstm = model("LSTM", inputs, ("y", (length, 1, batch, HIDDEN)), [("hidden_size", HIDDEN)])
    return compare("RNN", lstm, arrays)


run("ONNX Runtime", "onnxruntime", ["onnxruntime-gpu", "onnxruntime"], describe, convolution, rnn)

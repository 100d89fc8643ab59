# JAX's steps.
report_version("jax")


def import_jax():
    global jax
    import jax

    send({"version": plain(jax.__version__)})
    return ""


def find_cudnn():
    try:
        from jax._src.lib import cuda_versions
    except ImportError:
        cuda_versions = None
    if cuda_versions is None:
        raise Skipped("JAX's CUDA plugin is not installed, or does not load")
    built, found = cuda_versions.cudnn_build_version(), cuda_versions.cudnn_get_version()
    return f"{release(found)}, built for {release(built)}"


def find_device():
    device = jax.devices()[0]
    if device.platform == "cpu":
        raise OnCpu("jax.devices() has no GPU")
    return f"{device.device_kind} (compute capability {getattr(device, 'compute_capability', 'unknown')})"


def array(*shape):
    import numpy

    return numpy.array(small_integers(int(numpy.prod(shape))), "float32").reshape(shape)


def convolution():
    import numpy

    x, w = array(2, 16, 12, 12), array(8, 16, 3, 3)
    got = numpy.asarray(jax.lax.conv(x, w, (1, 1), "VALID"))
    return check_equal("convolution", got.ravel(), numpy_convolution(x, w).ravel(), 1e-2)


def attention():
    import inspect

    import numpy

    function = getattr(jax.nn, "dot_product_attention", None)
    if function is None or "implementation" not in inspect.signature(function).parameters:
        raise Skipped("this JAX has no attention by cuDNN")
    if float(getattr(jax.devices()[0], "compute_capability", "8.0")) < 8.0:
        raise Skipped("cuDNN's attention needs compute capability 8.0")
    q = array(1, 64, 4, 64) / 4
    k, v = q[:, ::-1], q[:, :, :, ::-1]
    half = [jax.numpy.asarray(one, jax.numpy.bfloat16) for one in (q, k, v)]
    got = numpy.asarray(function(*half, implementation="cudnn"), "float32")
    return check_equal("attention", got.ravel(), numpy_attention(q, k, v).ravel(), 5e-2)


def rnn():
    import numpy

    try:
        from jax.experimental import rnn as module
    except ImportError:
        raise Skipped("this JAX has no jax.experimental.rnn") from None
    sizes = {"input_size": 16, "hidden_size": 16, "num_layers": 1, "bidirectional": False}
    weights = module.init_lstm_weight(jax.random.PRNGKey(0), **sizes)
    x = jax.numpy.asarray(array(2, 5, 16) / 4)
    h_0 = c_0 = jax.numpy.zeros((1, 2, 16))
    lengths = jax.numpy.full((2,), 5, dtype=jax.numpy.int32)
    got = module.lstm(x, h_0, c_0, weights, lengths, dropout=0.0, **sizes)[0]
    parts = module.unpack_lstm_weights(weights, **sizes)
    expected = module.lstm_ref(x, h_0, c_0, *parts, lengths, dropout=0.0, **sizes)[0]
    return check_equal("RNN", numpy.asarray(got).ravel(), numpy.asarray(expected).ravel(), 1e-2)


if step("import", "imported jax", import_jax):
    step("cudnn", "asked JAX for the version of cuDNN", find_cudnn)
    if step("device", "started CUDA in JAX", find_device):
        step("convolution", "ran a convolution in JAX", convolution)
        step("attention", "ran an attention in JAX", attention)
        step("rnn", "ran an LSTM in JAX", rnn)
finish()

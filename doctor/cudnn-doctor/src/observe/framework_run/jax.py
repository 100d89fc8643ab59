# JAX's steps.
NO_PLUGIN = ": the package jax-cuda12-plugin or jax-cuda13-plugin is not installed"


def describe(jax):
    return ""


def cudnn():
    try:
        from jax._src.lib import cuda_versions
    except ImportError:
        cuda_versions = None
    if cuda_versions is None:
        raise Skipped("JAX's CUDA plugin is not installed, or does not load")
    built, found = cuda_versions.cudnn_build_version(), cuda_versions.cudnn_get_version()
    return f"{release(found)}, built for {release(built)}"


def device():
    has_plugin = any(version_of(f"jax-cuda{major}-plugin") for major in (12, 13))
    has_cuda = has_plugin or "cuda" in (version_of("jaxlib") or "cuda")
    try:
        gpu = jax.devices()[0]
    except RuntimeError:
        # JAX_PLATFORMS can demand CUDA.
        if not has_cuda:
            no_cuda("JAX", NO_PLUGIN)
        raise
    if gpu.platform == "cpu":
        platforms = os.environ.get("JAX_PLATFORMS", "")
        if platforms == "cpu":
            raise OnCpu(f"JAX_PLATFORMS={platforms} hides the GPUs")
        if not has_cuda:
            no_cuda("JAX", NO_PLUGIN)
        no_gpu("jax.devices() has no GPU")
    return f"{gpu.device_kind} (compute capability {getattr(gpu, 'compute_capability', 'unknown')})"


def convolution():
    import numpy

    x, w = array(*IMAGE), array(*FILTER)
    got = numpy.asarray(jax.lax.conv(x, w, (1, 1), "VALID"))
    return check_equal("convolution", got, numpy_convolution(x, w), TOLERANCE)


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
    return check_equal("attention", got, numpy_attention(q, k, v), 5e-2)


def rnn():
    import numpy

    try:
        from jax.experimental import rnn as module
    except ImportError:
        raise Skipped("this JAX has no jax.experimental.rnn") from None
    length, batch, size = SEQUENCE
    sizes = {"input_size": size, "hidden_size": HIDDEN, "num_layers": 1, "bidirectional": False}
    weights = module.init_lstm_weight(jax.random.PRNGKey(0), **sizes)
    # The batch comes first.
    x = jax.numpy.asarray(array(batch, length, size) / 4)
    h_0 = c_0 = jax.numpy.zeros((1, batch, HIDDEN))
    lengths = jax.numpy.full((batch,), length, dtype=jax.numpy.int32)
    got = module.lstm(x, h_0, c_0, weights, lengths, dropout=0.0, **sizes)[0]
    parts = module.unpack_lstm_weights(weights, **sizes)
    expected = module.lstm_ref(x, h_0, c_0, *parts, lengths, dropout=0.0, **sizes)[0]
    return check_equal("RNN", numpy.asarray(got), numpy.asarray(expected), TOLERANCE)


run("JAX", "jax", ["jax"], describe, cudnn, device, convolution, attention, rnn)

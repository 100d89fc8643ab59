# PyTorch's steps.


def describe(torch):
    if torch.version.cuda is None:
        no_cuda("PyTorch")
    return f"built for CUDA {torch.version.cuda}"


def cudnn():
    # Compares the release that PyTorch was built for with the one that is loaded.
    version = torch.backends.cudnn.version()
    if version is None:
        raise Skipped("this build of PyTorch has no cuDNN")
    return release(version)


def device():
    if not torch.cuda.is_available():
        reason = "torch.cuda.is_available() is False"
        try:
            torch.cuda.init()
        except Exception as error:
            reason = f"{reason}: {plain(error)}"
        no_gpu(reason)
    major, minor = torch.cuda.get_device_capability(0)
    return f"{torch.cuda.get_device_name(0)} (compute capability {major}.{minor})"


def tensor(*shape):
    count = 1
    for length in shape:
        count *= length
    return torch.tensor(small_integers(count), dtype=torch.float32).reshape(shape)


def compare(name, got, expected, tolerance):
    return check_equal(name, got.flatten().tolist(), expected.flatten().tolist(), tolerance)


def convolution():
    x, w = tensor(*IMAGE), tensor(*FILTER)
    expected = torch.nn.functional.conv2d(x, w)
    return compare("convolution", torch.nn.functional.conv2d(x.cuda(), w.cuda()).cpu(), expected, TOLERANCE)


def attention():
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = SDPBackend.CUDNN_ATTENTION
    except (ImportError, AttributeError):
        raise Skipped("this PyTorch has no attention by cuDNN") from None
    if torch.cuda.get_device_capability(0) < (8, 0):
        raise Skipped("cuDNN's attention needs compute capability 8.0") from None
    q = tensor(1, 4, 64, 64) / 4
    k, v = q.flip(2), q.flip(3)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel(backend):
        half = [one.cuda().half() for one in (q, k, v)]
        got = torch.nn.functional.scaled_dot_product_attention(*half).float().cpu()
    return compare("attention", got, expected, 2e-2)


def rnn():
    lstm = torch.nn.LSTM(SEQUENCE[2], HIDDEN)
    x = tensor(*SEQUENCE) / 4
    with torch.no_grad():
        expected = lstm(x)[0]
        got = lstm.cuda()(x.cuda())[0].cpu()
    return compare("RNN", got, expected, TOLERANCE)


run("PyTorch", "torch", ["torch"], describe, cudnn, device, convolution, attention, rnn)

# PyTorch's steps.
report_version("torch")


def import_torch():
    global torch
    import torch

    send({"version": plain(torch.__version__)})
    cuda = torch.version.cuda
    if cuda is None:
        raise OnCpu("this build of PyTorch has no CUDA")
    return f"built for CUDA {cuda}"


def find_cudnn():
    # Compares the release that PyTorch was built for with the one that is loaded.
    version = torch.backends.cudnn.version()
    if version is None:
        raise Skipped("this build of PyTorch has no cuDNN")
    return release(version)


def find_device():
    if not torch.cuda.is_available():
        try:
            torch.cuda.init()
        except Exception as error:
            raise OnCpu(f"torch.cuda.is_available() is False: {plain(error)}") from None
        raise OnCpu("torch.cuda.is_available() is False")
    major, minor = torch.cuda.get_device_capability(0)
    return f"{torch.cuda.get_device_name(0)} (compute capability {major}.{minor})"


def tensor(*shape):
    count = 1
    for length in shape:
        count *= length
    return torch.tensor(small_integers(count), dtype=torch.float32).reshape(shape)


def convolution():
    x, w = tensor(2, 16, 12, 12), tensor(8, 16, 3, 3)
    expected = torch.nn.functional.conv2d(x, w)
    got = torch.nn.functional.conv2d(x.cuda(), w.cuda()).cpu()
    return check_equal("convolution", got.flatten().tolist(), expected.flatten().tolist(), 1e-2)


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
    return check_equal("attention", got.flatten().tolist(), expected.flatten().tolist(), 2e-2)


def rnn():
    lstm = torch.nn.LSTM(16, 16)
    x = tensor(5, 2, 16) / 4
    with torch.no_grad():
        expected = lstm(x)[0]
        got = lstm.cuda()(x.cuda())[0].cpu()
    return check_equal("RNN", got.flatten().tolist(), expected.flatten().tolist(), 1e-2)


if step("import", "imported torch", import_torch):
    step("cudnn", "asked PyTorch for the version of cuDNN", find_cudnn)
    if step("device", "started CUDA in PyTorch", find_device):
        step("convolution", "ran a convolution in PyTorch", convolution)
        step("attention", "ran an attention in PyTorch", attention)
        step("rnn", "ran an LSTM in PyTorch", rnn)
finish()

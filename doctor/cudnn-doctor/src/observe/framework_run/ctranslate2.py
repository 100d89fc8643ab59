# CTranslate2's steps. It has no operation of cuDNN without a model, so the functions of cuDNN are called that it calls.


def describe(ctranslate2):
    return ""


def convolution():
    import ctypes

    loaded = [path for path in libraries() if os.path.basename(path).startswith(("libcudnn.so", "libcudnn-"))]
    if not loaded:
        raise Skipped("this release of CTranslate2 does not load cuDNN")
    # NVIDIA's shim ends the process if it does not find the sub-library.
    library = ctypes.CDLL(loaded[0])
    for name in ("cudnnCreateTensorDescriptor", "cudnnCreateConvolutionDescriptor"):
        descriptor = ctypes.c_void_p()
        status = getattr(library, name)(ctypes.byref(descriptor))
        if status != 0:
            raise RuntimeError(f"{name} returned status {status}")
    return "cuDNN creates its descriptors"


def device():
    count = ctranslate2.get_cuda_device_count()
    if count == 0:
        reason = "ctranslate2.get_cuda_device_count() is 0"
        try:
            ctranslate2.get_supported_compute_types("cuda")
        except Exception as error:
            reason = f"{reason}: {plain(error)}"
        no_gpu(reason)
    return f"{count} GPU{'' if count == 1 else 's'}"


CLAUSES["convolution"] = "created cuDNN's descriptors for {}"
CLAUSES["device"] = "counted the GPUs in {}"
run("CTranslate2", "ctranslate2", ["ctranslate2"], describe, convolution, device)

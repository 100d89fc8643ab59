# CTranslate2's steps. It has no operation of cuDNN without a model, so the functions of cuDNN are called that it calls.
report_version("ctranslate2")


def import_ctranslate2():
    global ctranslate2
    import ctranslate2

    send({"version": plain(ctranslate2.__version__)})
    return ""


def find_device():
    count = ctranslate2.get_cuda_device_count()
    if count == 0:
        raise OnCpu("ctranslate2.get_cuda_device_count() is 0")
    return f"{count} GPU{'' if count == 1 else 's'}"


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


if step("import", "imported ctranslate2", import_ctranslate2):
    step("convolution", "created cuDNN's descriptors for CTranslate2", convolution)
    step("device", "counted the GPUs in CTranslate2", find_device)
finish()

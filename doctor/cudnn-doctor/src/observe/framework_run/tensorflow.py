# TensorFlow's steps.


def describe(tensorflow):
    built = tensorflow.sysconfig.get_build_info()
    if not built.get("is_cuda_build"):
        no_cuda("TensorFlow")
    return f"built for CUDA {built.get('cuda_version')} and cuDNN {built.get('cudnn_version')}"


def device():
    gpus = tensorflow.config.list_physical_devices("GPU")
    if not gpus:
        no_gpu('tf.config.list_physical_devices("GPU") is empty')
    details = tensorflow.config.experimental.get_device_details(gpus[0])
    major, minor = details.get("compute_capability", (0, 0))
    return f"{details.get('device_name', 'a GPU')} (compute capability {major}.{minor})"


def convolution():
    x, w = array(*IMAGE), array(*FILTER)
    # TensorFlow's layout on every device: NHWC and HWIO.
    with tensorflow.device("/GPU:0"):
        y = tensorflow.nn.conv2d(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), 1, "VALID").numpy()
    return check_equal("convolution", y.transpose(0, 3, 1, 2), numpy_convolution(x, w), TOLERANCE)


def rnn():
    lstm = tensorflow.keras.layers.LSTM(HIDDEN, return_sequences=True)
    x = tensorflow.constant(array(*SEQUENCE) / 4)
    with tensorflow.device("/GPU:0"):
        got = lstm(x).numpy()
    with tensorflow.device("/CPU:0"):
        expected = lstm(x).numpy()
    return check_equal("RNN", got, expected, TOLERANCE)


PACKAGES = ["tensorflow", "tensorflow-cpu", "tf-nightly"]
run("TensorFlow", "tensorflow", PACKAGES, describe, device, convolution, rnn)

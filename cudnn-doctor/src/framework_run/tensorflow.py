# TensorFlow's steps.
report_version("tensorflow", "tensorflow-cpu", "tf-nightly")


def import_tensorflow():
    global tf
    import tensorflow as tf

    send({"version": plain(tf.__version__)})
    built = tf.sysconfig.get_build_info()
    if not built.get("is_cuda_build"):
        raise OnCpu("this build of TensorFlow has no CUDA")
    return f"built for CUDA {built.get('cuda_version')} and cuDNN {built.get('cudnn_version')}"


def find_device():
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise OnCpu('tf.config.list_physical_devices("GPU") is empty')
    details = tf.config.experimental.get_device_details(gpus[0])
    major, minor = details.get("compute_capability", (0, 0))
    return f"{details.get('device_name', 'a GPU')} (compute capability {major}.{minor})"


def array(*shape):
    import numpy

    return numpy.array(small_integers(int(numpy.prod(shape))), "float32").reshape(shape)


def convolution():
    x, w = array(2, 16, 12, 12), array(8, 16, 3, 3)
    # TensorFlow's layout on every device: NHWC and HWIO.
    with tf.device("/GPU:0"):
        y = tf.nn.conv2d(x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), 1, "VALID").numpy()
    return check_equal("convolution", y.transpose(0, 3, 1, 2).ravel(), numpy_convolution(x, w).ravel(), 1e-2)


def rnn():
    lstm = tf.keras.layers.LSTM(16, return_sequences=True)
    x = tf.constant(array(2, 5, 16) / 4)
    with tf.device("/GPU:0"):
        got = lstm(x).numpy()
    with tf.device("/CPU:0"):
        expected = lstm(x).numpy()
    return check_equal("RNN", got.ravel(), expected.ravel(), 1e-2)


if step("import", "imported tensorflow", import_tensorflow):
    if step("device", "started CUDA in TensorFlow", find_device):
        step("convolution", "ran a convolution in TensorFlow", convolution)
        step("rnn", "ran an LSTM in TensorFlow", rnn)
finish()

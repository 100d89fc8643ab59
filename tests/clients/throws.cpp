// Throws an exception through cuDNN, from a log callback, on the first and second call of a function. Also throws from an
// event of the drop-in itself: a library that it loads or cannot load.
#include <cudnn.h>
#include <cstdio>
#include <stdexcept>

static bool is_armed = false;

static void callback(cudnnSeverity_t, void *, const cudnnDebug_t *, const char *) {
    if (is_armed) {
        is_armed = false;
        throw std::runtime_error("from the callback");
    }
}

int main() {
    std::printf("cudnnSetCallback = %d\n", (int)cudnnSetCallback(CUDNN_SEV_INFO_EN, nullptr, callback));
    for (int round = 1; round <= 2; round++) {
        is_armed = true;
        try {
            cudnnBackendDescriptor_t descriptor;
            cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor);
            std::printf("call %d: nothing was thrown\n", round);
        } catch (const std::exception &thrown) {
            std::printf("call %d: caught, %s\n", round, thrown.what());
        }
    }
    is_armed = true;
    try {
        cudnnTensorDescriptor_t descriptor;
        cudnnCreateTensorDescriptor(&descriptor);
        std::printf("another library: nothing was thrown\n");
    } catch (const std::exception &thrown) {
        std::printf("another library: caught, %s\n", thrown.what());
    }
    // Repeats the call without an exception.
    cudnnTensorDescriptor_t descriptor;
    std::printf("then = %d\n", (int)cudnnCreateTensorDescriptor(&descriptor));
}

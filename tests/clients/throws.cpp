// Throws an exception through cuDNN, from a callback that cuDNN calls, on a function's first call and on its second.
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
}

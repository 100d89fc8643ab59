/* CUDA types that cuDNN names: the module `cuda`. */
#include <cuda_runtime_api.h>

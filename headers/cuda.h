/* The CUDA types that cuDNN's headers use: the module `cuda`. */
#include <cuda_runtime_api.h>

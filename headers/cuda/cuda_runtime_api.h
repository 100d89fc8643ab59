/* Replaces CUDA's cuda_runtime_api.h, so that the bindings can be generated and used without CUDA. Declares the types that
 * cuDNN's headers use, which are all opaque pointers. A test compares these declarations with NVIDIA's header. */
#ifndef CUDNN_SHIM_CUDA_RUNTIME_API_H
#define CUDNN_SHIM_CUDA_RUNTIME_API_H

/* cuDNN's headers rely on this header for size_t. */
#include <stddef.h>

#include "library_types.h"

typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;

#endif

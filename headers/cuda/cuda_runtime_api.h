/* Replaces CUDA's cuda_runtime_api.h: the types that cuDNN's headers use, all of them opaque pointers. So neither generating
 * nor using the bindings needs CUDA. A test compares these declarations with NVIDIA's header. */
#ifndef CUDNN_SHIM_CUDA_RUNTIME_API_H
#define CUDNN_SHIM_CUDA_RUNTIME_API_H

/* cuDNN's headers need size_t from this one. */
#include <stddef.h>

#include "library_types.h"

typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;

#endif

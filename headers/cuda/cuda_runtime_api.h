/* Stand-in for the few types of the CUDA runtime that cuDNN's headers name.
 * They are opaque pointers: nothing of CUDA is needed to generate or to use the bindings.
 * A test compiles these beside NVIDIA's own header and compares them. */
#ifndef CUDNN_SHIM_CUDA_RUNTIME_API_H
#define CUDNN_SHIM_CUDA_RUNTIME_API_H

/* cuDNN's headers rely on this one to define size_t. */
#include <stddef.h>

#include "library_types.h"

typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;

#endif

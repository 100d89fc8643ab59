//! Provides a stand-in for the CUDA driver, with host memory as the GPU's memory.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::compiler::compile;

/// Builds `libcuda.so.1` in this directory. A stand-in for cuDNN can find the variables of the code with `dlsym`: all
/// calls fail after it sets `broken`, events take their times from `now`, in milliseconds, and `cleared` is the number
/// of bytes that were last set at once.
pub fn stand_in_driver(dir: &Path) {
    compile(CODE, &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], &dir.join("libcuda.so.1"));
    symlink("libcuda.so.1", dir.join("libcuda.so")).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
}

const CODE: &str = r#"
#include <stdlib.h>
#include <string.h>
typedef unsigned long long ptr;
int broken;
double now;
size_t cleared;
#define CALL(name, arguments, body) int name arguments { if (broken) return 700; body; return 0; }
#define NOTHING(name) CALL(name, (void), )
CALL(cuInit, (unsigned flags), )
CALL(cuDeviceGetCount, (int *count), *count = 1)
CALL(cuDeviceGet, (int *device, int ordinal), *device = 0)
CALL(cuDeviceGetAttribute, (int *value, int attribute, int device), *value = 1)
CALL(cuDeviceGetName, (char *name, int size, int device), strncpy(name, "stand-in", size))
CALL(cuDevicePrimaryCtxRetain, (void **context, int device), *context = &broken)
CALL(cuCtxGetCurrent, (void **context), *context = &broken)
CALL(cuMemAllocAsync, (ptr *memory, size_t size, void *stream), *memory = (ptr)malloc(size))
CALL(cuMemAlloc_v2, (ptr *memory, size_t size), *memory = (ptr)malloc(size))
CALL(cuMemFreeAsync, (ptr memory, void *stream), free((void *)memory))
CALL(cuMemFree_v2, (ptr memory), free((void *)memory))
CALL(cuMemcpyDtoDAsync_v2, (ptr to, ptr from, size_t size, void *stream), memcpy((void *)to, (void *)from, size))
CALL(cuMemcpyDtoHAsync_v2, (void *to, ptr from, size_t size, void *stream), memcpy(to, (void *)from, size))
CALL(cuMemcpyHtoDAsync_v2, (ptr to, const void *from, size_t size, void *stream), memcpy((void *)to, from, size))
CALL(cuMemsetD8Async, (ptr to, unsigned char byte, size_t size, void *stream), memset((void *)to, byte, cleared = size))
CALL(cuEventCreate, (double **event, unsigned flags), *event = malloc(sizeof now))
CALL(cuEventDestroy_v2, (double *event), free(event))
CALL(cuEventRecord, (double *event, void *stream), *event = now)
CALL(cuEventElapsedTime, (float *time, double *start, double *end), *time = *end - *start)
CALL(cuModuleLoadData, (void **module, const void *image), *module = &now)
CALL(cuModuleGetFunction, (void **function, void *module, const char *name), *function = &now)
CALL(cuLaunchKernel, (void *function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
    unsigned shared, void *stream, ptr **parameters, void **extra),
    if (memcmp((void *)*parameters[0], (void *)*parameters[1], *parameters[2] * 4)) *(int *)*parameters[3] = 1)
int cuGetErrorName(int error, const char **text) { *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "illegal address"; return 0; }
NOTHING(cuDevicePrimaryCtxRelease_v2) NOTHING(cuCtxSetCurrent) NOTHING(cuEventSynchronize) NOTHING(cuEventQuery)
NOTHING(cuStreamSynchronize) NOTHING(cuStreamWaitEvent) NOTHING(cuCtxSynchronize)
NOTHING(cuStreamCreate) NOTHING(cuStreamDestroy_v2)
"#;

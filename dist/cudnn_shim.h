/* Additional functions of the drop-in libcudnn.so.9 or cudnn64_9.dll: a report, the last load error, and
 * preloading.
 *
 * NVIDIA's library does not export these functions. If your program must also run with NVIDIA's library, look them
 * up with dlsym(RTLD_DEFAULT, ...) or GetProcAddress, and skip the calls if the result is NULL. All functions are
 * thread-safe.
 */
#ifndef CUDNN_SHIM_H
#define CUDNN_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags for cudnnShimPreload. The sub-libraries to load: */
#define CUDNN_SHIM_GRAPH 1u
#define CUDNN_SHIM_OPS 2u
#define CUDNN_SHIM_CNN 4u
#define CUDNN_SHIM_ADV 8u
#define CUDNN_SHIM_EXT 16u
#define CUDNN_SHIM_LIBRARIES 31u
/* Creates the CUDA contexts of the devices. */
#define CUDNN_SHIM_CONTEXTS 32u
/* Registers cuDNN's engines, which takes most of the time of the first plan or workspace query. */
#define CUDNN_SHIM_ENGINES 64u
#define CUDNN_SHIM_ALL 127u
/* Makes the kernel read the files ahead, as every preload does. Without sub-libraries and engines, a preload does not
 * load cuDNN, even in combination with CUDNN_SHIM_CONTEXTS. */
#define CUDNN_SHIM_FILES 128u

/* Returns the drop-in's version as a static string, for example "0.1.0". */
const char *cudnnShimGetVersion(void);

/* Describes the selected installation, the loaded sub-libraries, and NVIDIA's libcudnn.so.9 if it is loaded too,
 * in one line each. Does not load any library.
 *
 * Like snprintf, this function writes at most `size` bytes including the terminating NUL, and does not write at
 * all if `buffer` is NULL or `size` is 0. It returns the length of the full text without the NUL. If the length is
 * `size` or more, the text was truncated. */
size_t cudnnShimGetReport(char *buffer, size_t size);

/* Describes the calling thread's last load error in full: the reason, the fix, the error message of the dynamic
 * loader, and every directory that was searched. The text is empty if no load has failed. Unlike
 * cudnnGetLastErrorString, this function does not clear the error. `buffer`, `size` and the return value are as
 * for cudnnShimGetReport. */
size_t cudnnShimGetLastLoadError(char *buffer, size_t size);

/* Loads libraries, creates contexts and registers engines ahead of the first use, in parallel where cuDNN allows
 * it, and waits until all steps have finished. CUDNN_SHIM_CONTEXTS applies to the listed devices, or to the
 * current device if `device_count` is 0. Steps that the installation does not support are skipped.
 *
 * Returns 0, or the cudnnStatus_t of the first step that failed (1001 for an error of the CUDA driver). The other
 * steps still run, and a failed step can be retried. Call cudnnShimGetPreloadReport for the duration and error of
 * each step.
 *
 * During a preload, a callback set with cudnnSetCallback must not throw C++ exceptions, because it may run in
 * internal threads. This function and the next two have no effect if a preload itself calls them, for example through
 * that callback. */
int cudnnShimPreload(unsigned int flags, const int *devices, int device_count);

/* Starts cudnnShimPreload in a background thread and returns 0. An exit or a fork waits at most ten seconds for
 * the current step. An exit by a thread other than the first and the calling thread can crash during a step. On
 * Windows, an exit does not wait, because Windows ends all other threads first. */
int cudnnShimPreloadStart(unsigned int flags, const int *devices, int device_count);

/* Waits for the preloads that were started. Returns the status of the first one that failed, in the order of their
 * starts, or 0 if all succeeded. If there is nothing to wait for, returns the previous status again, or 0 if no preload
 * has run. Also waits for the preload of the variable CUDNN_LOADER_PRELOAD, which is ignored in the result and in the
 * report if the program preloads itself. A forked child does not wait for its parent's preloads, and a library's
 * constructor cannot wait for preloads. */
int cudnnShimPreloadWait(void);

/* Describes the preload whose status cudnnShimPreload or cudnnShimPreloadWait returned last, with one line per step:
 * start time, duration and result. `buffer`, `size` and the return value are as for cudnnShimGetReport. */
size_t cudnnShimGetPreloadReport(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif

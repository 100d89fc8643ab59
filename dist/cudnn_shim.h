/* Functions that the drop-in libcudnn.so.9 or cudnn64_9.dll has in addition to cuDNN's: a report, the last load error,
 * preloading.
 *
 * NVIDIA's does not have them. A program that must also run with NVIDIA's looks them up with dlsym(RTLD_DEFAULT, ...) or
 * GetProcAddress and omits the calls if that returns NULL. All of them are thread-safe.
 */
#ifndef CUDNN_SHIM_H
#define CUDNN_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of cudnnShimPreload. The sub-libraries to load: */
#define CUDNN_SHIM_GRAPH 1u
#define CUDNN_SHIM_OPS 2u
#define CUDNN_SHIM_CNN 4u
#define CUDNN_SHIM_ADV 8u
#define CUDNN_SHIM_EXT 16u
#define CUDNN_SHIM_LIBRARIES 31u
/* Create the CUDA contexts of the devices. */
#define CUDNN_SHIM_CONTEXTS 32u
/* Register cuDNN's engines, which takes most of the time of the first plan or workspace query. */
#define CUDNN_SHIM_ENGINES 64u
#define CUDNN_SHIM_ALL 127u
/* Make the kernel read the files ahead. Without sub-libraries and engines, alone or with CUDNN_SHIM_CONTEXTS, nothing of
 * cuDNN is loaded. */
#define CUDNN_SHIM_FILES 128u

/* Returns the drop-in's version, "0.1.0": a static string. */
const char *cudnnShimGetVersion(void);

/* Describes the selected installation, each loaded sub-library, and NVIDIA's libcudnn.so.9 if the process has loaded it
 * too. One line each. Loads nothing.
 *
 * Like snprintf: writes at most `size` bytes including the terminating NUL, and nothing if `buffer` is NULL or `size` is 0.
 * Returns the length of the full text without the NUL; if that is `size` or more, the text was truncated. */
size_t cudnnShimGetReport(char *buffer, size_t size);

/* Describes the calling thread's last load error in full: the reason, what to do, the error message of the dynamic loader,
 * and every directory that was searched. Empty if no load has failed. Reading does not clear it, unlike
 * cudnnGetLastErrorString. `buffer`, `size` and the return value are as for cudnnShimGetReport. */
size_t cudnnShimGetLastLoadError(char *buffer, size_t size);

/* Loads libraries, creates contexts and registers engines ahead of the first use, in parallel where cuDNN allows it, and
 * waits until that is done. CUDNN_SHIM_CONTEXTS applies to the listed devices, or to the current device if `device_count`
 * is 0. Steps that the installation does not support are skipped.
 *
 * Returns 0, or the cudnnStatus_t of the first step that failed (1001 for a failure of the CUDA driver). The other steps
 * still run, and a failed step can be retried. cudnnShimGetPreloadReport has each step's duration and error.
 *
 * A callback set with cudnnSetCallback must not throw C++ exceptions during a preload: it may run on internal threads. */
int cudnnShimPreload(unsigned int flags, const int *devices, int device_count);

/* Starts cudnnShimPreload in a background thread. Returns 0 once it is started. An exit or a fork waits for the step that is
 * under way, for at most ten seconds. An exit by another thread than the first and the calling one can crash in the middle
 * of a step. On Windows an exit waits for nothing: Windows has ended the other threads then. */
int cudnnShimPreloadStart(unsigned int flags, const int *devices, int device_count);

/* Waits for the preloads that were started and returns the status of the preload that ended last, 0 if there was none.
 * A child of fork does not wait for the preloads of its parent. Does the work in this thread if the others make no
 * progress, as when this thread is in a library's constructor. */
int cudnnShimPreloadWait(void);

/* Describes the last finished preload, one line a step: start time, duration, result. `buffer`, `size` and the return value
 * are as for cudnnShimGetReport. */
size_t cudnnShimGetPreloadReport(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif

/* What the drop-in libcudnn.so.9 can be asked beyond cuDNN's own functions.
 *
 * These functions are in the drop-in alone: a program that is to run with NVIDIA's libcudnn.so.9 too looks them up with
 * dlsym(RTLD_DEFAULT, ...) and does without where they are not. They may be called from any thread; none aborts.
 */
#ifndef CUDNN_SHIM_H
#define CUDNN_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to load ahead, as a mask: the sub-libraries, ... */
#define CUDNN_SHIM_GRAPH 1u
#define CUDNN_SHIM_OPS 2u
#define CUDNN_SHIM_CNN 4u
#define CUDNN_SHIM_ADV 8u
#define CUDNN_SHIM_EXT 16u
#define CUDNN_SHIM_LIBRARIES 31u
/* ... the contexts of devices, ... */
#define CUDNN_SHIM_CONTEXTS 32u
/* ... and cuDNN's registration of its engines, which takes most of the time of a first plan or workspace query. */
#define CUDNN_SHIM_ENGINES 64u
#define CUDNN_SHIM_EVERYTHING 127u

/* The drop-in's own version, "0.1.0". A static text. */
const char *cudnnShimGetVersion(void);

/* Describes what is loaded and from where, in lines of text: the installation, each sub-library, and NVIDIA's own shim if
 * the process has loaded it too. Loads nothing.
 *
 * Writes at most `size` bytes with the NUL at the end, nothing where `text` is NULL or `size` is 0; gives the length of
 * the whole text without the NUL, so that a longer buffer can be tried. */
size_t cudnnShimGetReport(char *text, size_t size);

/* This thread's last failure to load, in full: every path that was tried, the dynamic linker's own words, what to do. Not
 * forgotten when it is read, unlike cudnnGetLastErrorString's. Empty where there was none. As for `size`, see above. */
size_t cudnnShimGetLastLoadError(char *text, size_t size);

/* Loads ahead what the mask says, side by side where cuDNN allows it, and waits. With CUDNN_SHIM_CONTEXTS: the contexts of
 * these devices, or, where `device_count` is 0, that of the current one. What the installation does not include is left out.
 *
 * Gives 0, or the cudnnStatus_t of the first step that failed (1001 for the driver's); the others are done all the same,
 * and what failed can be tried again. What a step cost, and why it failed, is in cudnnShimGetPreloadReport.
 *
 * A callback (cudnnSetCallback) must not throw an exception at what this has to tell it: part of the work is done in
 * threads that nobody else has. */
int cudnnShimPreload(unsigned int what, const int *devices, int device_count);

/* As cudnnShimPreload, in a thread of its own. Gives 0 when it has been started. */
int cudnnShimPreloadStart(unsigned int what, const int *devices, int device_count);

/* Waits for what was started last, and gives what cudnnShimPreload would have given; 0 where nothing was started. */
int cudnnShimPreloadWait(void);

/* The steps of the last preload that came to its end, a line each: when it began, how long it took, what came of it. As for
 * `size`, see above. */
size_t cudnnShimGetPreloadReport(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif

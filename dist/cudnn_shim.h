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

/* The sub-libraries, as a mask. */
#define CUDNN_SHIM_GRAPH 1u
#define CUDNN_SHIM_OPS 2u
#define CUDNN_SHIM_CNN 4u
#define CUDNN_SHIM_ADV 8u
#define CUDNN_SHIM_EXT 16u
/* All that the installation has. */
#define CUDNN_SHIM_ALL 0u

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

/* Loads sub-libraries now instead of on their functions' first calls, and tries again what has failed before. Gives 0, or
 * the cudnnStatus_t of the first failure, whose story the two functions above and cudnnGetLastErrorString then have; the
 * others are loaded all the same. */
int cudnnShimPreload(unsigned int libraries);

#ifdef __cplusplus
}
#endif

#endif

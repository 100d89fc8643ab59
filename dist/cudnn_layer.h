/* Interface for layers, which intercept calls between a program and cuDNN.
 *
 *     program -> layer -> layer -> cuDNN's function
 *
 * A layer is a shared library that exports cudnnLayerBegin. The environment variable CUDNN_LAYERS lists the layers
 * to load, outermost first. It applies to the drop-in libcudnn.so.9 or cudnn64_9.dll and to programs that use
 * cudnn-loader:
 *
 *     CUDNN_LAYERS=/opt/layers/libcount.so,trace ./program
 *
 * The loader calls a layer's `wrap` once per function, when the program first calls that function. The layer
 * returns the function to call instead, or `next` to leave the function unchanged. Functions that no layer wraps
 * have no extra cost.
 */
#ifndef CUDNN_LAYER_H
#define CUDNN_LAYER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. New versions only append fields to structures. Check `size` before you read a
 * field that an older loader or layer may not provide. Each field that needs the check says so. */
#define CUDNN_LAYER_ABI 1u

/* Severities of messages. */
#define CUDNN_LAYER_ERROR 0
#define CUDNN_LAYER_WARNING 1
#define CUDNN_LAYER_INFO 2

/* Kinds of events. Ignore unknown kinds. */
#define CUDNN_LAYER_LIBRARY_LOADED 1 /* library, path, duration_ns, age_ns */
#define CUDNN_LAYER_LIBRARY_FAILED 2 /* library, status, text */
#define CUDNN_LAYER_CALL_FAILED 3    /* function, status, text: resolving failed; no layer sees the call */
#define CUDNN_LAYER_FIRST_CALL 4     /* function, duration_ns: the function was resolved; its first call follows */

/* Functions and data that the loader provides to a layer. Valid until the process ends. */
typedef struct cudnnLayerHost {
    size_t size;                /* the size of this structure in the loader's version */
    uint32_t abi;               /* the loader's CUDNN_LAYER_ABI */
    uint32_t cudnn_version;     /* 92800 for cuDNN 9.28.0 */
    const char *cudnn_dir;      /* the directory of cuDNN's libraries */
    const char *name;           /* the layer's name in CUDNN_LAYERS */
    void *loader;               /* reserved for the loader */

    /* Returns the address that this layer must use for its own calls of a cuDNN function. Such calls run through
     * the layers inside this one. Returns NULL if this cuDNN does not export the function. May be called at any
     * time in any thread. */
    void *(*next)(const struct cudnnLayerHost *host, const char *function);

    /* Logs a line of text. */
    void (*message)(const struct cudnnLayerHost *host, int severity, const char *text);

    /* Returns the number of the program's calls that have bypassed the layers so far, because another thread was
     * busy with layers. A layer that must observe every call compares this number before it relies on its
     * observations. The number increases before such a call reaches cuDNN. */
    uint64_t (*missed_calls)(const struct cudnnLayerHost *host);

    /* The names of the layers between this layer and cuDNN, outermost first, separated and terminated by newlines.
     * These layers may change the requests that reach cuDNN. */
    const char *inside;

    /* The environment at the time when cuDNN's graph library was loaded and read some of the variables:
     * NUL-terminated strings "NAME=value", followed by another NUL. NULL if the library was loaded before the
     * loader was used or before the loader knew of any layer. */
    const char *environment;

    /* What cudnnGetCudartVersion returns, such as 12090 for CUDA 12.9, or 0 if the loader does not know it. Check `size`,
     * because older loaders have no such field. */
    uint32_t cudart_version;
} cudnnLayerHost;

/* An event in the loader. Fields that the kind does not list are 0 or NULL. */
typedef struct cudnnLayerEvent {
    size_t size;                /* the size of this structure in the loader's version */
    int32_t kind;
    int32_t status;             /* a cudnnStatus_t */
    const char *function;
    const char *library;        /* "libcudnn_ops.so.9" */
    const char *path;
    const char *text;
    uint64_t duration_ns;
    uint64_t age_ns;            /* the time since the event finished */
} cudnnLayerEvent;

/* Functions and data that a layer provides to the loader. The loader zero-initializes the structure and sets
 * `size` to the number of bytes that it reads. C++ exceptions must not leave these functions or cudnnLayerBegin.
 * This includes exceptions that the program's callback throws during a cuDNN call made from here; they end the
 * process. */
typedef struct cudnnLayer {
    size_t size;
    void *data;                 /* passed to the functions below */

    /* Returns the function to call instead of `next`, with the same signature, or `next` itself. The loader calls
     * `wrap` once for each function that the program calls, one function at a time, without holding the dynamic
     * loader's lock. cuDNN functions that are called from here bypass all layers. */
    void *(*wrap)(void *data, const char *function, void *next);

    /* Receives events in any thread, possibly in several threads at once. May be NULL. */
    void (*event)(void *data, const cudnnLayerEvent *event);
} cudnnLayer;

/* The only function that a layer has to export. Called once after cuDNN has been loaded, before the program's first call
 * continues. Returns 0 on success. For any other value, the layer remains inactive and the program continues
 * without it. */
int cudnnLayerBegin(const cudnnLayerHost *host, cudnnLayer *layer);

/* Optional. `name` is the entry of CUDNN_LAYERS, as in cudnnLayerHost. Returns NULL if the layer would work as
 * requested with the environment variables of this process, or else the reason, which stays valid until the process
 * exits. `cudnn-doctor run` calls it in a process without cuDNN, before it starts the program. */
const char *cudnnLayerCheck(const char *name);

#ifdef __cplusplus
}
#endif

#endif

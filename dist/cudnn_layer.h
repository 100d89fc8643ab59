/* Layers between a program and cuDNN.
 *
 *     program -> layer -> layer -> cuDNN's function
 *
 * A layer is a shared library that exports cudnnLayerBegin. The drop-in libcudnn.so.9 or cudnn64_9.dll, and programs that
 * use cudnn-loader, load the layers that the environment variable CUDNN_LAYERS lists, the outermost first:
 *
 *     CUDNN_LAYERS=/opt/layers/libcount.so,trace ./program
 *
 * The loader asks a layer once for each function, when the program first calls it. The layer returns the function that is to
 * be called instead, or `next` to stay out of the way. So a function that no layer wants costs nothing more than before.
 */
#ifndef CUDNN_LAYER_H
#define CUDNN_LAYER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Structures only grow: a field that a loader or layer is too old for is not there. */
#define CUDNN_LAYER_ABI 1u

/* Severities of messages. */
#define CUDNN_LAYER_ERROR 0
#define CUDNN_LAYER_WARNING 1
#define CUDNN_LAYER_INFO 2

/* Kinds of events. Ignore those that you do not know. */
#define CUDNN_LAYER_LIBRARY_LOADED 1 /* library, path, duration_ns, age_ns */
#define CUDNN_LAYER_LIBRARY_FAILED 2 /* library, status, text */
#define CUDNN_LAYER_CALL_FAILED 3    /* function, status, text: the function could not be resolved; no layer sees the call */
#define CUDNN_LAYER_FIRST_CALL 4     /* function, duration_ns: the function was resolved; its first call follows */

/* What the loader offers to a layer. It stays valid until the process ends. */
typedef struct cudnnLayerHost {
    size_t size;                /* the size of this structure, as the loader knows it */
    uint32_t abi;               /* CUDNN_LAYER_ABI, as the loader knows it */
    uint32_t cudnn_version;     /* 92800 for cuDNN 9.28.0 */
    const char *cudnn_dir;      /* the directory of cuDNN's libraries */
    const char *name;           /* the layer, as CUDNN_LAYERS names it */
    void *loader;               /* the loader's own */

    /* The address of cuDNN's function of this name, as this layer's own calls must reach it: behind this layer. NULL if this
     * cuDNN does not have it. May be called at any time, in any thread. */
    void *(*next)(const struct cudnnLayerHost *host, const char *function);

    /* Logs one line of text. */
    void (*message)(const struct cudnnLayerHost *host, int severity, const char *text);

    /* How many calls of the program have gone to cuDNN past the layers so far, because another thread was busy with layers. A layer that must see
     * every call compares it before it relies on what it has seen. It grows before such a call reaches cuDNN. */
    uint64_t (*missed_calls)(const struct cudnnLayerHost *host);

    /* The layers between this one and cuDNN, as CUDNN_LAYERS names them, the outermost first, each followed by a newline. They may
     * change what cuDNN is asked for. */
    const char *inside;

    /* The environment when cuDNN's graph library was loaded, which reads some variables then: strings "NAME=value", a NUL behind
     * each, and one more NUL at the end. NULL if the library was loaded before this loader was used, or before it knew of
     * a layer. */
    const char *environment;
} cudnnLayerHost;

/* Something that happened in the loader. What a kind does not list is 0 or NULL. */
typedef struct cudnnLayerEvent {
    size_t size;                /* the size of this structure, as the loader knows it */
    int32_t kind;
    int32_t status;             /* a cudnnStatus_t */
    const char *function;
    const char *library;        /* "libcudnn_ops.so.9" */
    const char *path;
    const char *text;
    uint64_t duration_ns;
    uint64_t age_ns;            /* how long ago it ended */
} cudnnLayerEvent;

/* What a layer offers to the loader. The loader has set it to zeros, and `size` to the bytes that it reads. No C++ exception
 * may leave these functions or cudnnLayerBegin: one that a callback of the program throws during a call of cuDNN from
 * here ends the process. */
typedef struct cudnnLayer {
    size_t size;
    void *data;                 /* passed to the functions below */

    /* Returns the function to call in place of `next`, of the same signature, or `next`. The loader calls it once for each
     * function that the program calls, for one function at a time, and with the lock of the dynamic loader not taken by it.
     * cuDNN's functions that are called from here reach cuDNN without any layer. */
    void *(*wrap)(void *data, const char *function, void *next);

    /* Receives events, in any thread, also in several at once. May be NULL. */
    void (*event)(void *data, const cudnnLayerEvent *event);
} cudnnLayer;

/* The one function that a layer exports. Called once, when cuDNN is loaded, before the program's first call goes on. Returns
 * 0; otherwise the layer stays off, and the program goes on without it. */
int cudnnLayerBegin(const cudnnLayerHost *host, cudnnLayer *layer);

#ifdef __cplusplus
}
#endif

#endif

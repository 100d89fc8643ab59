/* A layer that counts the tensor descriptors that a program makes, and those that it forgets to destroy.
 *
 *     cc -shared -fPIC -I dist -o libcudnn_layer_count.so cudnn-layer-api/examples/count.c
 *     CUDNN_LAYERS=$PWD/libcudnn_layer_count.so ./program
 */
#include <cudnn_layer.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static int (*next_create)(void **descriptor);
static int (*next_destroy)(void *descriptor);
static atomic_long made, destroyed;

static int create(void **descriptor) {
    int status = next_create(descriptor);
    if (status == 0) made++;
    return status;
}

static int destroy(void *descriptor) {
    destroyed++;
    return next_destroy(descriptor);
}

static void *wrap(void *data, const char *function, void *next) {
    (void)data;
    if (strcmp(function, "cudnnCreateTensorDescriptor") == 0) return next_create = next, (void *)create;
    if (strcmp(function, "cudnnDestroyTensorDescriptor") == 0) return next_destroy = next, (void *)destroy;
    return next;
}

__attribute__((destructor)) static void report(void) {
    fprintf(stderr, "tensor descriptors: %ld made, %ld left\n", made, made - destroyed);
}

int cudnnLayerBegin(const cudnnLayerHost *host, cudnnLayer *layer) {
    layer->wrap = wrap;
    return host->abi < CUDNN_LAYER_ABI;
}

/* A layer that stops a thread other than the first one while it looks up cudnnGetTensorNdDescriptor. It writes a byte to the
 * descriptor in GATE_OUT, and waits for one from the descriptor in GATE_IN. */
#define _GNU_SOURCE
#include <cudnn_layer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *wrap(void *data, const char *function, void *next) {
    char byte = 0;
    if (!strcmp(function, "cudnnGetTensorNdDescriptor") && syscall(SYS_gettid) != getpid()) {
        if (write(atoi(getenv("GATE_OUT")), &byte, 1) == 1 && read(atoi(getenv("GATE_IN")), &byte, 1) == 1) return next;
    }
    return next;
}

int cudnnLayerBegin(const cudnnLayerHost *host, cudnnLayer *layer) {
    layer->wrap = wrap;
    return 0;
}

/* A layer that prints the loader's calls and wraps cudnnGetVersion. The tests compile it with NAME, and with code that
 * replaces these macros. */
#ifndef FUNCTIONS
#define FUNCTIONS
#endif
#ifndef IN_BEGIN
#define IN_BEGIN
#endif
#ifndef IN_WRAP
#define IN_WRAP
#endif
#ifndef BEFORE
#define BEFORE
#endif
#ifndef IN_EVENT
#define IN_EVENT
#endif
#ifndef STATUS
#define STATUS 0
#endif

#include <cudnn_layer.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cudnnLayerHost *host;
static size_t (*next_version)(void);

static void print(const char *what, const char *text, long number) {
    dprintf(2, NAME " %s %s %ld\n", what, text, number);
}

FUNCTIONS

static size_t version(void) {
    print("before", "cudnnGetVersion", 0);
    BEFORE;
    size_t number = next_version();
    print("after", "cudnnGetVersion", (long)number);
    return number;
}

static void *wrap(void *data, const char *function, void *next) {
    print("wrap", function, data == &host);
    IN_WRAP;
    if (strcmp(function, "cudnnGetVersion") == 0) {
        next_version = (size_t (*)(void))next;
        return (void *)version;
    }
    return next;
}

static void event(void *data, const cudnnLayerEvent *event) {
    (void)data;
    IN_EVENT;
    static const char *const kinds[] = {"", "loaded", "load-failed", "call-failed", "first-call"};
    const char *subject = event->function ? event->function : event->library;
    print(kinds[event->kind], subject, event->status);
}

int cudnnLayerBegin(const cudnnLayerHost *given, cudnnLayer *layer) {
    host = given;
    print("begin", host->name, host->cudnn_version);
    IN_BEGIN;
    layer->data = (void *)&host;
    layer->wrap = wrap;
    layer->event = event;
    return STATUS;
}

/* A C program that is linked to libcudnn.so.9, NVIDIA's or the drop-in. It calls the functions that its arguments name and
 * prints the results as `driver` does. `plain` uses descriptors as a program does; `report`, `load-error` and `preload...`
 * call the drop-in's own functions; `open:FILE` opens a library; `maps` prints the mapped files of cuDNN. */
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* New in 9.22.0. */
#pragma weak cudnnCausalConv1dForward

static void lines(const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        printf("  | %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void story(void) {
    char text[16384] = "";
    cudnnGetLastErrorString(text, sizeof text);
    lines(text);
}

static void returned(const char *name, cudnnStatus_t status) {
    printf("%s = %s (%d)\n", name, cudnnGetErrorString(status), (int)status);
}

static void plain(void) {
    cudnnTensorDescriptor_t tensor;
    returned("cudnnCreateTensorDescriptor", cudnnCreateTensorDescriptor(&tensor));
    story();
    cudnnBackendDescriptor_t backend = NULL;
    returned("cudnnBackendCreateDescriptor", cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &backend));
    story();
    int64_t uid = 7;
    returned("cudnnBackendSetAttribute",
             cudnnBackendSetAttribute(backend, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid));
    /* A tensor without dimensions: the error text comes from cuDNN. */
    returned("cudnnBackendFinalize", cudnnBackendFinalize(backend));
    story();
    returned("cudnnBackendDestroyDescriptor", cudnnBackendDestroyDescriptor(backend));
    cudnnHandle_t handle;
    returned("cudnnCreate", cudnnCreate(&handle));
    story();
}

/* Only the drop-in has these functions. */
static void ask(const char *function) {
    size_t (*tell)(char *, size_t) = (size_t(*)(char *, size_t))dlsym(RTLD_DEFAULT, function);
    if (!tell) {
        printf("%s = none\n", function);
        return;
    }
    size_t length = tell(NULL, 0);
    char *text = malloc(length + 1);
    printf("%s = %zu\n", function, tell(text, length + 1));
    lines(text);
    free(text);
}

static void maps(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    char line[4096], last[4096] = "";
    while (file && fgets(line, sizeof line, file)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, "libcudnn") && strcmp(path, last)) {
            printf("mapped %s", path);
            strcpy(last, path);
        }
    }
}

static void perform(const char *word) {
    if (!strcmp(word, "plain")) plain();
    else if (!strcmp(word, "report")) ask("cudnnShimGetReport");
    else if (!strcmp(word, "load-error")) ask("cudnnShimGetLastLoadError");
    else if (!strcmp(word, "maps")) maps();
    else if (!strncmp(word, "open:", 5)) printf("%s\n", dlopen(word + 5, RTLD_NOW | RTLD_GLOBAL) ? word : dlerror());
    else if (!strncmp(word, "preload:", 8)) {
        int (*preload)(unsigned, const int *, int) =
            (int (*)(unsigned, const int *, int))dlsym(RTLD_DEFAULT, "cudnnShimPreload");
        printf("cudnnShimPreload = %d\n", preload ? preload((unsigned)atoi(word + 8), NULL, 0) : -1);
    } else if (!strcmp(word, "preload-wait")) {
        int (*wait)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cudnnShimPreloadWait");
        printf("cudnnShimPreloadWait = %d\n", wait ? wait() : -1);
    } else if (!strcmp(word, "preload-report")) ask("cudnnShimGetPreloadReport");
    else if (!strcmp(word, "preload-start")) {
        int (*start)(unsigned, const int *, int) =
            (int (*)(unsigned, const int *, int))dlsym(RTLD_DEFAULT, "cudnnShimPreloadStart");
        printf("cudnnShimPreloadStart = %d\n", start ? start(1, NULL, 0) : -1);
    } else if (!strcmp(word, "cudnnGetVersion")) printf("cudnnGetVersion = %zu\n", cudnnGetVersion());
    else if (!strcmp(word, "cudnnGetErrorString")) printf("%s = %s\n", word, cudnnGetErrorString(CUDNN_STATUS_SUCCESS));
    else if (!strcmp(word, "cudnnGetLastErrorString")) story();
    else {
        cudnnStatus_t status;
        if (!strcmp(word, "cudnnDestroy")) status = cudnnDestroy(NULL);
        else if (!strcmp(word, "cudnnDestroyTensorDescriptor")) status = cudnnDestroyTensorDescriptor(NULL);
        else if (!strcmp(word, "cudnnDestroyConvolutionDescriptor")) status = cudnnDestroyConvolutionDescriptor(NULL);
        else if (!strcmp(word, "cudnnDestroyRNNDescriptor")) status = cudnnDestroyRNNDescriptor(NULL);
        else if (!strcmp(word, "cudnnCausalConv1dForward")) {
            /* The loader refuses it in a release that lacks it, before anything reads the arguments. */
            cudnnStatus_t (*volatile function)(void) = (cudnnStatus_t(*)(void))cudnnCausalConv1dForward;
            status = function ? function() : CUDNN_STATUS_NOT_SUPPORTED;
        } else {
            fprintf(stderr, "unknown argument: %s\n", word);
            exit(9);
        }
        returned(word, status);
        story();
    }
    fflush(stdout);
}

int main(int count, char **args) {
    for (int index = 1; index < count; index++) perform(args[index]);
    return 0;
}

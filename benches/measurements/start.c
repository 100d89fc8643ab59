/* Measures the time from the start of a program to the end of its first convolution, through any libcudnn.so.9:
 *   start LIBRARY lazily      NVIDIA's shim or the drop-in, loaded on first use
 *   start LIBRARY preload     the drop-in, everything preloaded first
 *   start LIBRARY floor       no cuDNN: only the driver and a context
 *   start LIBRARY WAY hold    finally waits until standard input is closed
 * Prints milliseconds: total, preload, handle, workspace query, first convolution, second convolution.
 * cc -O2 -o start start.c -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void *library, *driver;

static void *function(void *from, const char *name) {
    void *found = dlsym(from, name);
    if (!found) {
        fprintf(stderr, "%s is missing\n", name);
        exit(2);
    }
    return found;
}

#define CUDNN(name, ...) check(#name, ((int (*)())function(library, #name))(__VA_ARGS__))
#define CUDA(name, ...) check(#name, ((int (*)())function(driver, #name))(__VA_ARGS__))

static void check(const char *name, int status) {
    if (status) {
        fprintf(stderr, "%s gave %d\n", name, status);
        exit(1);
    }
}

int main(int count, char **args) {
    double start = now();
    if (count < 3) return 9;
    double preloaded = 0, handle_made = 0, queried, first, second;
    void *handle = NULL, *context;
    if (!strcmp(args[2], "floor")) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
        CUDA(cuInit, 0);
        double initialised = now();
        CUDA(cuDevicePrimaryCtxRetain, &context, 0);
        printf("%.3f %.3f %.3f\n", now() - start, initialised - start, now() - initialised);
        return 0;
    }
    library = dlopen(args[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    if (!strcmp(args[2], "preload")) CUDNN(cudnnShimPreload, 127, NULL, 0);
    preloaded = now();
    CUDNN(cudnnCreate, &handle);
    handle_made = now();
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUDA(cuInit, 0);
    CUDA(cuDevicePrimaryCtxRetain, &context, 0);
    CUDA(cuCtxSetCurrent, context);
    void *x, *y, *w, *convolution;
    CUDNN(cudnnCreateTensorDescriptor, &x);
    CUDNN(cudnnSetTensor4dDescriptor, x, 0, 0, 16, 64, 56, 56);
    CUDNN(cudnnCreateTensorDescriptor, &y);
    CUDNN(cudnnSetTensor4dDescriptor, y, 0, 0, 16, 64, 56, 56);
    CUDNN(cudnnCreateFilterDescriptor, &w);
    CUDNN(cudnnSetFilter4dDescriptor, w, 0, 0, 64, 64, 3, 3);
    CUDNN(cudnnCreateConvolutionDescriptor, &convolution);
    CUDNN(cudnnSetConvolution2dDescriptor, convolution, 1, 1, 1, 1, 1, 1, 1, 0);
    size_t size = 0;
    double before = now();
    CUDNN(cudnnGetConvolutionForwardWorkspaceSize, handle, x, w, convolution, y, 1, &size);
    queried = now() - before;
    uint64_t input, filter, output, work;
    size_t bytes = 16ul * 64 * 56 * 56 * 4;
    CUDA(cuMemAlloc_v2, &input, bytes);
    CUDA(cuMemAlloc_v2, &output, bytes);
    CUDA(cuMemAlloc_v2, &filter, 64ul * 64 * 9 * 4);
    CUDA(cuMemAlloc_v2, &work, size ? size : 1);
    float one = 1, zero = 0;
    double times[2];
    for (int round = 0; round < 2; round++) {
        before = now();
        CUDNN(cudnnConvolutionForward, handle, &one, x, (void *)input, w, (void *)filter, convolution, 1, (void *)work,
              size, &zero, y, (void *)output);
        CUDA(cuCtxSynchronize, 0);
        times[round] = now() - before;
        if (!round) first = now() - start;
    }
    second = times[1];
    printf("%.3f %.3f %.3f %.3f %.3f %.3f\n", first, preloaded - start, handle_made - preloaded, queried, times[0], second);
    fflush(stdout);
    if (count > 3 && !strcmp(args[3], "hold")) while (getchar() != EOF) {}
    return 0;
}

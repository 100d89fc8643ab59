/* Measures the cost of a call with a trace: warm, and after other work has evicted the trace from the caches.
 *
 *     cc -O2 -I CUDNN/include -I headers/cuda -o trace-call trace-call.c -L DROP_IN/lib -l:libcudnn.so.9
 *     LD_LIBRARY_PATH=DROP_IN/lib CUDNN_LOADER_DIR=CUDNN/lib CUDNN_LAYERS=trace CUDNN_TRACE=t.json ./trace-call
 *
 * Prints, for cudnnGetVersion and for cudnnBackendSetAttribute (5 arguments): the least CPU time of 40 runs of 20,000 calls,
 * the median of 3,000 calls between which 2 MB are written, and the page faults of a thousand of those, in nanoseconds.
 */
#define _GNU_SOURCE
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static cudnnBackendDescriptor_t descriptor;
static void version(void) { cudnnGetVersion(); }
static void set_attribute(void) {
    int64_t alignment = 16;
    cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
}

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static double warm(void (*call)(void)) {
    double least = 1e18;
    for (int run = 0; run < 40; run++) {
        double start = now(CLOCK_THREAD_CPUTIME_ID);
        for (int index = 0; index < 20000; index++) call();
        double time = (now(CLOCK_THREAD_CPUTIME_ID) - start) / 20000;
        if (time < least) least = time;
    }
    return least;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double cold(void (*call)(void)) {
    enum { CALLS = 3000, BYTES = 2 << 20 };
    static double times[CALLS];
    static volatile char other[BYTES];
    for (int index = 0; index < CALLS; index++) {
        for (int byte = 0; byte < BYTES; byte += 64) other[byte]++;
        double start = now(CLOCK_MONOTONIC);
        call();
        times[index] = now(CLOCK_MONOTONIC) - start;
    }
    qsort(times, CALLS, sizeof *times, compare);
    return times[CALLS / 2];
}

int main(void) {
    struct rusage before, after;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor);
    double times[] = {warm(version), warm(set_attribute), 0, 0};
    cold(version); /* touches the memory in advance */
    getrusage(RUSAGE_THREAD, &before);
    times[2] = cold(version);
    times[3] = cold(set_attribute);
    getrusage(RUSAGE_THREAD, &after);
    printf("warm %.0f %.0f cold %.0f %.0f faults %.1f\n", times[0], times[1], times[2], times[3],
           (double)(after.ru_minflt - before.ru_minflt) / 6);
    return 0;
}

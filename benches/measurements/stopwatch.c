/* A layer that measures the time of every function. Two copies of it measure the layers between them.
 *
 *     cc -O2 -shared -fPIC -I dist -o stopwatch.so benches/measurements/stopwatch.c && cp stopwatch.so stopwatch-inner.so
 *     CUDNN_LAYERS=$PWD/stopwatch.so,trace,$PWD/stopwatch-inner.so STOPWATCH=table.txt ./program
 *
 * The outer copy subtracts the inner copy's time from every call. The rest is the time of the layers between them, without
 * cuDNN's time and without the differences between processes. If the copies are adjacent, it is the inner copy's overhead.
 * At exit, the layer writes a line per function: calls, cuDNN's time, and the median and the mean of the rest. A program can
 * discard previous measurements by calling stopwatch_reset of the outer copy.
 *
 * Forwarders pass on registers and a part of the stack, whatever the signature: on x86-64, for functions that return no
 * floating-point number.
 */
#define _GNU_SOURCE
#include <cudnn_layer.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#define SMALL 64
#define LARGE 64
#define PARTS 16
#define BUCKETS (32 * PARTS)

typedef long word;
typedef word (*small_function)(word, word, word, word, word, word);
typedef word (*large_function)(word, word, word, word, word, word, double, double, double, double, double, double, double,
                               double, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                               word, word, word, word, word, word, word, word, word, word, word, word);

struct function {
    char name[64];
    void *next;
    uint64_t calls, inside, rest;
    uint64_t buckets[BUCKETS];
};
static struct function functions[SMALL + LARGE];
static int used_small, used_large;
static uint64_t start_ticks, start_time;

/* The inner copy's time of this thread's last call. */
static __thread uint64_t last;
static uint64_t *address_of_last(void) { return &last; }
static uint64_t *(*inner)(void);
static int is_inner;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int bucket(uint64_t ticks) {
    int power = 0;
    while (ticks >> power >= 2 * PARTS) power++;
    int index = power * PARTS + (ticks >> power);
    return index < BUCKETS ? index : BUCKETS - 1;
}

/* The end of a cuDNN call. The driver starts work by a store to the device, which the processor finishes later. The next
 * locked instruction of a layer or the program waits for it, so the wait is counted as part of the call. */
static uint64_t end_time(void) {
    if (is_inner) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __rdtsc();
}

static void count(struct function *function, uint64_t ticks) {
    last = ticks;
    if (is_inner) return;
    uint64_t inside = inner ? *inner() : 0, rest = ticks > inside ? ticks - inside : 0;
    __atomic_fetch_add(&function->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&function->inside, inside, __ATOMIC_RELAXED);
    __atomic_fetch_add(&function->rest, rest, __ATOMIC_RELAXED);
    __atomic_fetch_add(&function->buckets[bucket(rest)], 1, __ATOMIC_RELAXED);
}

#define FORWARD_SMALL(n)                                                                                            \
    static word small_##n(word a, word b, word c, word d, word e, word f) {                                         \
        uint64_t start = __rdtsc();                                                                                 \
        word result = ((small_function)functions[n].next)(a, b, c, d, e, f);                                        \
        count(&functions[n], end_time() - start);                                                                     \
        return result;                                                                                              \
    }
#define FORWARD_LARGE(n)                                                                                            \
    static word large_##n(word a, word b, word c, word d, word e, word f, double x0, double x1, double x2,          \
                          double x3, double x4, double x5, double x6, double x7, word s0, word s1, word s2, word s3, \
                          word s4, word s5, word s6, word s7, word s8, word s9, word s10, word s11, word s12,       \
                          word s13, word s14, word s15, word s16, word s17, word s18, word s19, word s20, word s21, \
                          word s22, word s23, word s24, word s25) {                                                 \
        uint64_t start = __rdtsc();                                                                                 \
        word result = ((large_function)functions[SMALL + n].next)(                                                  \
            a, b, c, d, e, f, x0, x1, x2, x3, x4, x5, x6, x7, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11,     \
            s12, s13, s14, s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25);                                  \
        count(&functions[SMALL + n], end_time() - start);                                                            \
        return result;                                                                                              \
    }
#define NAME_SMALL(n) (void *)small_##n,
#define NAME_LARGE(n) (void *)large_##n,
#define EIGHT(M, t) M(t##0) M(t##1) M(t##2) M(t##3) M(t##4) M(t##5) M(t##6) M(t##7)
/* 64 numbers in octal. */
#define ALL(M) EIGHT(M, 00) EIGHT(M, 01) EIGHT(M, 02) EIGHT(M, 03) EIGHT(M, 04) EIGHT(M, 05) EIGHT(M, 06) EIGHT(M, 07)
ALL(FORWARD_SMALL)
ALL(FORWARD_LARGE)
static void *const small[SMALL] = {ALL(NAME_SMALL)};
static void *const large[LARGE] = {ALL(NAME_LARGE)};

/* Functions with at most six arguments and without floating-point arguments. */
static int is_small(const char *name) {
    static const char *const known[] = {"cudnnBackend", "cudnnCreate", "cudnnDestroy", "cudnnGetErrorString",
                                        "cudnnGetStream", "cudnnGetVersion", "cudnnSetStream"};
    for (unsigned index = 0; index < sizeof known / sizeof *known; index++)
        if (!strncmp(name, known[index], strlen(known[index]))) return 1;
    return 0;
}

static void *wrap(void *data, const char *name, void *next) {
    (void)data;
    int is = is_small(name), number = is ? used_small : used_large;
    if (number >= SMALL) return next;
    struct function *function = &functions[is ? number : SMALL + number];
    snprintf(function->name, sizeof function->name, "%s", name);
    function->next = next;
    return is ? small[used_small++] : large[used_large++];
}

void stopwatch_reset(void) {
    for (int index = 0; index < SMALL + LARGE; index++) {
        struct function *function = &functions[index];
        function->calls = function->inside = function->rest = 0;
        memset(function->buckets, 0, sizeof function->buckets);
    }
}

static uint64_t median(const struct function *function) {
    uint64_t before = 0;
    for (int index = 0; index < BUCKETS; index++) {
        before += function->buckets[index];
        if (2 * before <= function->calls) continue;
        if (index < 2 * PARTS) return index;
        int power = index / PARTS - 1;
        return ((uint64_t)(index % PARTS + PARTS) << power) + (1ull << power) / 2;
    }
    return 0;
}

__attribute__((destructor)) static void write_table(void) {
    const char *name = getenv("STOPWATCH");
    if (!name || is_inner) return;
    FILE *file = fopen(name, "w");
    if (!file) return;
    double nanoseconds = (double)(now() - start_time) / (double)(__rdtsc() - start_ticks);
    for (int index = 0; index < SMALL + LARGE; index++) {
        const struct function *function = &functions[index];
        if (!function->calls) continue;
        double calls = (double)function->calls;
        fprintf(file, "%s %.0f %.1f %.1f %.1f\n", function->name, calls, function->inside * nanoseconds / calls,
                median(function) * nanoseconds, function->rest * nanoseconds / calls);
    }
    fclose(file);
}

int cudnnLayerBegin(const cudnnLayerHost *host, cudnnLayer *layer) {
    const char *found = getenv("STOPWATCH_INNER");
    start_ticks = __rdtsc();
    start_time = now();
    if (found) {
        inner = (uint64_t * (*)(void)) strtoull(found, NULL, 16);
    } else if (strstr(host->name, "inner")) {
        char text[32];
        is_inner = 1;
        snprintf(text, sizeof text, "%llx", (unsigned long long)(uintptr_t)address_of_last);
        setenv("STOPWATCH_INNER", text, 1);
    }
    layer->wrap = wrap;
    return host->abi < CUDNN_LAYER_ABI;
}

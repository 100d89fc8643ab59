/* Does what programs may do, and what layers could disturb.
 *
 * refused              sets and reads attributes that cuDNN refuses, with elements that cannot be read, and prints the status
 * constructor:PLUGIN   opens this library, which is compiled from this file with -DPLUGIN. Its constructor calls cuDNN, while
 *                      another thread calls cuDNN, too
 * fork                 forks while another thread calls cuDNN for the first time, and calls cuDNN in the child
 * raw-fork             the same calls in a parent and in a child of which the C library does not know
 */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PLUGIN
void opened(void);
__attribute__((constructor)) static void start(void) { opened(); }
#else

/* A fake cuDNN leaves these addresses. */
static cudnnTensorDescriptor_t from = (void *)16, to = (void *)32;

static int transform(void) {
    float one = 1, zero = 0;
    return cudnnTransformTensor(NULL, &one, from, NULL, &zero, to, NULL);
}

static void create(void) {
    cudnnCreateTensorDescriptor(&from);
    cudnnCreateTensorDescriptor(&to);
    cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 3, 4);
    cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 3, 4);
}

static void set(const char *what, cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count, void *elements) {
    printf("%s: %d\n", what, cudnnBackendSetAttribute(descriptor, name, type, count, elements));
}

static void refused(void) {
    /* One number at the end of readable memory. */
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + page, page, PROT_NONE);
    int64_t *last = (int64_t *)(memory + page) - 1, id = 1, alignment = 16, sizes[] = {1, 2, 3, 4}, count = 0;
    *last = 7;
    void *invalid = (void *)8;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t tensor = NULL, plan = NULL;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor);
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
    set("id", tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set("alignment", tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set("type", tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set("dimensions", tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set("strides", tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, sizes);
    set("of another kind", tensor, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 6, last);
    set("huge", tensor, CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, CUDNN_TYPE_INT64, 1000000, last);
    set("invalid", tensor, CUDNN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS, CUDNN_TYPE_INT64, 1, invalid);
    set("undeclared", tensor, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_DOUBLE, 0xfffffff0, last);
    set("operand", tensor, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, invalid);
    set("configuration", tensor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, invalid);
    set("handle", tensor, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, invalid);
    printf("get: %d\n", cudnnBackendGetAttribute(tensor, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1000,
                                                 &count, invalid));
    printf("finalize: %d\n", cudnnBackendFinalize(tensor));
    set("finalized", tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8, last);
    set("finalized, undeclared", tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 1000, last);
    printf("plan: %d\n", cudnnBackendFinalize(plan));
}

/* Set by the constructor, with ld.so's lock, and by the other thread when its call has returned. */
static atomic_int is_open, has_returned;

/* Returns whether the first thread waits for something. */
static int is_asleep(void) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    char *end = length > 0 ? strrchr(text, ')') : NULL;
    return end && end[2] == 'S';
}

void opened(void) {
    is_open = 1;
    while (!has_returned && !is_asleep()) sched_yield();
    printf("constructor: %d\n", transform());
}

static void *open_plugin(void *plugin) {
    printf("opened: %d\n", dlopen(plugin, RTLD_NOW) != NULL);
    return NULL;
}

static void constructor(char *plugin) {
    pthread_t thread;
    create();
    /* The function is resolved, and no descriptor was read. */
    float one = 1;
    cudnnTransformTensor(NULL, &one, NULL, NULL, &one, NULL, NULL);
    pthread_create(&thread, NULL, open_plugin, plugin);
    while (!is_open) sched_yield();
    int status = transform();
    has_returned = 1;
    pthread_join(thread, NULL);
    printf("thread: %d\n", status);
}

static int gate[2];

static void *call(void *unused) {
    printf("thread: %d\n", transform());
    if (write(gate[1], "", 1) != 1) abort();
    return unused;
}

static void fork_while_called(void) {
    int out[2];
    char number[16], byte;
    if (pipe(gate) || pipe(out)) abort();
    snprintf(number, sizeof number, "%d", gate[1]);
    setenv("GATE_OUT", number, 1);
    snprintf(number, sizeof number, "%d", out[0]);
    setenv("GATE_IN", number, 1);
    create();
    pthread_t thread;
    pthread_create(&thread, NULL, call, NULL);
    /* The thread has returned, or waits in the layer. */
    if (read(gate[0], &byte, 1) != 1) abort();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(transform());
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    if (write(out[1], "", 1) != 1) abort();
    pthread_join(thread, NULL);
}

static void raw_fork(void) {
    cudnnBackendDescriptor_t tensor = NULL;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor);
    int64_t value = 1;
    set("before", tensor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &value);
    fflush(stdout);
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    value = child ? 2 : 3;
    set(child ? "parent" : "child", tensor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &value);
    fflush(stdout);
    if (!child) _exit(0);
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments) {
    /* A program that hangs ends with a signal. */
    alarm(60);
    for (int index = 1; index < count; index++) {
        char *argument = arguments[index];
        if (!strcmp(argument, "refused")) refused();
        else if (!strncmp(argument, "constructor:", 12)) constructor(argument + 12);
        else if (!strcmp(argument, "fork")) fork_while_called();
        else if (!strcmp(argument, "raw-fork")) raw_fork();
        else return 2;
    }
    return 0;
}
#endif

/* Forks while four threads use cuDNN; each child uses cuDNN too, and exits. Linked to libcudnn.so.9.
 *
 *   forks WORK [gdb]
 *
 * WORK is what the threads repeat: tensors, graphs, refused (calls that return an error) or handles. Prints "ok", or
 * how a child ended, or "hangs" for a child that still runs after five seconds, and with gdb where it hangs. */
#define _GNU_SOURCE
#include <cudnn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Type and count of an attribute that is one descriptor. */
#define PART CUDNN_TYPE_BACKEND_DESCRIPTOR, 1

enum { THREADS = 4, CHILDREN = 5, SECONDS = 5 };

typedef cudnnBackendDescriptor_t Descriptor;

static Descriptor tensor(int64_t id) {
    Descriptor made = NULL;
    int64_t alignment = 16, dims[] = {2, 8, 16, 16}, strides[] = {2048, 1, 128, 8};
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &made);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    cudnnBackendFinalize(made);
    return made;
}

static void tensors(void) { cudnnBackendDestroyDescriptor(tensor(1)); }

static void graphs(void) {
    Descriptor x = tensor(1), y = tensor(2), relu = NULL, operation = NULL, graph = NULL;
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &relu);
    cudnnBackendSetAttribute(relu, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    cudnnBackendSetAttribute(relu, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnnBackendFinalize(relu);
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, &operation);
    cudnnBackendSetAttribute(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, PART, &relu);
    cudnnBackendSetAttribute(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, PART, &x);
    cudnnBackendSetAttribute(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, PART, &y);
    cudnnBackendFinalize(operation);
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
    cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, PART, &operation);
    cudnnBackendFinalize(graph);
    Descriptor made[] = {graph, operation, relu, y, x};
    for (int i = 0; i < 5; i++) cudnnBackendDestroyDescriptor(made[i]);
}

static void refused(void) {
    char reason[256];
    Descriptor made = NULL;
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &made);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, -1, NULL);
    cudnnGetLastErrorString(reason, sizeof reason);
    cudnnBackendDestroyDescriptor(made);
}

static void handles(void) {
    cudnnHandle_t handle;
    if (!cudnnCreate(&handle)) cudnnDestroy(handle);
}

static void (*work)(void);
static volatile int ends;

static void *repeat(void *started) {
    work();
    sem_post(started);
    while (!ends) work();
    return NULL;
}

/* Waits for a child, and prints how it ended. Returns whether it ended with 0. */
static int ended(pid_t child, int debugs) {
    struct pollfd exits = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
    int status = 0;
    if (poll(&exits, 1, SECONDS * 1000) == 1) {
        waitpid(child, &status, 0);
        close(exits.fd);
        if (status) printf("a child ended with %d\n", status);
        return !status;
    }
    char command[512];
    printf("hangs\n");
    fflush(stdout);
    snprintf(command, sizeof command,
             "gdb -p %d -batch -ex bt 2>/dev/null | grep '^#' | sed -E 's/ (\\(|from|at) ?.*//; s/0x[0-9a-f]+ in //' "
             "| head -12",
             child);
    if (debugs && system(command)) printf("gdb failed\n");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 0;
}

int main(int count, char **args) {
    const char *name = count > 1 ? args[1] : "tensors";
    work = tensors;
    if (!strcmp(name, "graphs")) work = graphs;
    if (!strcmp(name, "refused")) work = refused;
    if (!strcmp(name, "handles")) work = handles;
    tensors(), graphs(), refused(), handles();
    pthread_t threads[THREADS];
    sem_t started;
    sem_init(&started, 0, 0);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, repeat, &started);
    for (int i = 0; i < THREADS; i++) sem_wait(&started);
    int ok = 1;
    for (int i = 0; i < CHILDREN && ok; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            tensors(), graphs(), refused(), handles();
            exit(0);
        }
        ok = ended(child, count > 2);
    }
    ends = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    if (ok) printf("ok\n");
    fflush(stdout);
    _exit(!ok);
}

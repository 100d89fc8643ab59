/* A C program whose calls are traced. It does its arguments one after the other:
 *
 * calls:N          calls cudnnGetVersion and makes and destroys a descriptor, N times
 * hot:THREADS      does the same in that many threads until the process ends
 * execute:N        executes a plan on a stream N times, with numbers for handle, stream and plan: for fake libraries
 * fork             goes on in a child and its parent, which waits for it
 * sleep:MS, limit:BYTES (of a file's size), close-all (descriptors), memory (prints the anonymous memory in KB)
 * open:FILE        opens a library
 * end:HOW          kill, segv, _exit or exit
 */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void calls(long count) {
    while (count-- > 0) {
        cudnnBackendDescriptor_t descriptor = NULL;
        cudnnGetVersion();
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor);
        cudnnBackendDestroyDescriptor(descriptor);
    }
}

static void *hot(void *unused) {
    for (;;) calls(1000);
    return unused;
}

static void execute(long count) {
    cudnnHandle_t handle = (cudnnHandle_t)0x1000;
    cudnnSetStream(handle, (cudaStream_t)0x77);
    while (count-- > 0) {
        cudnnBackendExecute(handle, (cudnnBackendDescriptor_t)0x2000, (cudnnBackendDescriptor_t)0x3000);
        usleep(1000);
    }
}

static void print_memory(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, "RssAnon:", 8)) printf("memory = %ld\n", atol(line + 8));
    }
    if (file) fclose(file);
}

int main(int count, char **arguments) {
    alarm(60);
    for (int index = 1; index < count; index++) {
        char *name = arguments[index], *option = strchr(name, ':');
        if (option) *option++ = 0;
        else option = "";
        long number = atol(option);
        if (!strcmp(name, "calls")) calls(number);
        else if (!strcmp(name, "hot")) {
            pthread_t thread;
            while (number-- > 0) pthread_create(&thread, NULL, hot, NULL);
        } else if (!strcmp(name, "execute")) execute(number);
        else if (!strcmp(name, "fork")) {
            pid_t child = fork();
            if (child) {
                waitpid(child, NULL, 0);
                printf("child = %d\n", (int)child);
            }
        } else if (!strcmp(name, "sleep")) usleep(number * 1000);
        else if (!strcmp(name, "limit")) {
            struct rlimit limit = {number, number};
            setrlimit(RLIMIT_FSIZE, &limit);
        } else if (!strcmp(name, "close-all")) close_range(3, ~0u, 0);
        else if (!strcmp(name, "memory")) print_memory();
        else if (!strcmp(name, "open")) {
            if (!dlopen(option, RTLD_NOW)) printf("%s\n", dlerror());
        } else if (!strcmp(option, "kill")) kill(getpid(), SIGKILL);
        else if (!strcmp(option, "segv")) raise(SIGSEGV);
        else if (!strcmp(option, "_exit")) _exit(0);
        else exit(0);
        fflush(stdout);
    }
    return 0;
}

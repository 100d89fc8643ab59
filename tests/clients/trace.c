/* Makes calls for a trace. Executes its arguments in order:
 *
 * calls:N          calls cudnnGetVersion and makes and destroys a descriptor, N times
 * threads:N        does the same 100 times in that many threads
 * hot:THREADS      does the same in that many threads until the process exits
 * handler:N        calls cudnnGetVersion until N signal handlers have interrupted it and called it, too
 * jump:N           the same, and every handler leaves by siglongjmp
 * execute:N        executes a plan on a stream N times, with numbers for handle, stream and plan: for fake libraries
 * hold:FILE, raw-hold:FILE   forks a child that calls nothing, and exits when that file exists; raw as below
 * fork, raw-fork   continues in a child and in the parent, which waits for the child; raw-fork bypasses the C library
 * deny:rseq, deny:link  denies these system calls from now on
 * sleep:MS, limit:BYTES (of a file's size), close-all (descriptors), memory (prints the anonymous memory in KB)
 * truncate:FILE, fill:FILE (until there is no space left), touch:FILE, exists:FILE (waits for it),
 *                  keep-open:FILE (under the next 20 numbers)
 * open:FILE        opens a library
 * cd:DIR           changes the working directory
 * end:HOW          kill, segv, _exit or exit
 */
#define _GNU_SOURCE
#include <cudnn.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

static void *hundred(void *unused) {
    calls(100);
    return unused;
}

static void threads(long count) {
    pthread_t started[256];
    if (count > 256) count = 256;
    for (long index = 0; index < count; index++) pthread_create(&started[index], NULL, hundred, NULL);
    for (long index = 0; index < count; index++) pthread_join(started[index], NULL);
}

static volatile sig_atomic_t handled, jumps;
static pthread_t interrupted;
static sigjmp_buf place;

static void handle(int unused) {
    (void)unused;
    cudnnGetVersion();
    handled++;
    if (jumps) siglongjmp(place, 1);
}

static void *interrupt(void *wanted) {
    while (handled < (long)wanted) {
        int before = handled;
        pthread_kill(interrupted, SIGUSR1);
        while (handled == before) sched_yield();
        usleep(rand() % 100);
    }
    return NULL;
}

/* The calls that returned, without calls from handlers. */
static void interruptions(long wanted, int jump) {
    struct sigaction action = {0};
    static volatile long returned;
    pthread_t thread;
    action.sa_handler = handle;
    sigaction(SIGUSR1, &action, NULL);
    jumps = jump;
    interrupted = pthread_self();
    cudnnGetVersion();
    sigsetjmp(place, 1);
    if (!returned) {
        returned = 1;
        pthread_create(&thread, NULL, interrupt, (void *)wanted);
        pthread_detach(thread);
    }
    for (; handled < wanted; returned++) cudnnGetVersion();
    printf("returned = %ld\n", returned);
}

/* Like a sandbox. */
static void deny(int first, int second) {
#define DENY(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        DENY(first),
        DENY(second),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) perror("seccomp");
}

static void fill(const char *name) {
    static char bytes[1 << 16];
    int file = open(name, O_CREAT | O_WRONLY, 0644);
    /* Writes smaller and smaller pieces until the disk is full. */
    for (size_t size = sizeof bytes; size; size /= 2) {
        while (write(file, bytes, size) > 0) continue;
        fsync(file);
    }
    close(file);
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

static pid_t fork_somehow(int is_raw) {
    return is_raw ? syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
}

/* Returns once the child is running. */
static void hold(const char *name, int is_raw) {
    int ends[2];
    char byte;
    if (pipe(ends)) perror("pipe");
    if (!fork_somehow(is_raw)) {
        alarm(60);
        close(0), close(1), close(2), close(ends[0]), close(ends[1]);
        while (access(name, F_OK)) usleep(1000);
        _exit(0);
    }
    close(ends[1]);
    while (read(ends[0], &byte, 1) > 0) continue;
    close(ends[0]);
}

int main(int count, char **arguments) {
    alarm(60);
    for (int index = 1; index < count; index++) {
        char *name = arguments[index], *option = strchr(name, ':');
        if (option) *option++ = 0;
        else option = "";
        long number = atol(option);
        if (!strcmp(name, "calls")) calls(number);
        else if (!strcmp(name, "threads")) threads(number);
        else if (!strcmp(name, "handler")) interruptions(number, 0);
        else if (!strcmp(name, "jump")) interruptions(number, 1);
        else if (!strcmp(option, "rseq")) deny(__NR_rseq, __NR_rseq);
#ifdef __NR_link
        else if (!strcmp(option, "link")) deny(__NR_link, __NR_linkat);
#else
        else if (!strcmp(option, "link")) deny(__NR_linkat, __NR_linkat);
#endif
        else if (!strcmp(name, "fill")) fill(option);
        else if (!strcmp(name, "truncate")) {
            if (truncate(option, 0)) perror(option);
        } else if (!strcmp(name, "keep-open")) {
            for (int times = 0; times < 20; times++) open(option, O_CREAT | O_WRONLY | O_APPEND, 0644);
        } else if (!strcmp(name, "touch")) {
            close(open(option, O_CREAT | O_WRONLY, 0644));
        } else if (!strcmp(name, "exists")) {
            while (access(option, F_OK)) usleep(1000);
        } else if (!strcmp(name, "hot")) {
            pthread_t thread;
            while (number-- > 0) pthread_create(&thread, NULL, hot, NULL);
        } else if (!strcmp(name, "execute")) execute(number);
        else if (!strcmp(name, "fork") || !strcmp(name, "raw-fork")) {
            pid_t child = fork_somehow(*name == 'r');
            if (child) {
                waitpid(child, NULL, 0);
                printf("child = %d\n", (int)child);
            }
        } else if (!strcmp(name, "hold") || !strcmp(name, "raw-hold")) hold(option, *name == 'r');
        else if (!strcmp(name, "cd")) {
            if (chdir(option)) return 2;
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

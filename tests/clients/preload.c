/* Exits, forks or waits while the drop-in preloads. The first argument selects the action:
 *   exit US          returns from main after so many microseconds
 *   fork-list US     forks after that time; the child reads ld.so's list
 *   failing-calls    makes failing calls in threads, and in children that are forked at the same time
 *   fork US          forks after that time; the child calls exit()
 *   start-fork US    starts preloads in one thread and forks in another; the child calls exit()
 *   start-in-thread  starts a preload in a thread that exits immediately; then closes the drop-in
 *   child-waits      a forked child waits for the parent's preload
 *   callback HOW     does HOW in a log callback on a thread of the preload
 *   start-each       starts a preload for every log entry that a thread of a preload writes
 *   limit            preloads with a limit of the address space
 *   close-all US     closes all descriptors after that time, then fills pipes and reads them
 *   set-variables US adds variables to the environment for that time
 *   deny MODE US     does MODE where threads cannot unshare their descriptors, as in containers on old kernels
 *   wait-at-exit     starts a preload; a destructor waits for it
 *   report           waits for the preload and prints its report
 *   lock             forks with a lock that a log callback needs
 *   plugin FILE HOW  opens a library whose constructor does HOW: exit, fork, start, wait, run, first-call
 *   namespace FILE   opens copies of the drop-in with dlmopen and starts preloads in them
 *   no-threads       preloads where new threads cannot be created
 * With -DPLUGIN, this file is the library for `plugin`. */
#define _GNU_SOURCE
#include <cudnn.h>
#include <cudnn_shim.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WHAT (CUDNN_SHIM_LIBRARIES | CUDNN_SHIM_ENGINES)

static void fork_and_wait(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("child = %d\n", status);
}

static int ignore(struct dl_phdr_info *info, size_t size, void *data) {
    (void)info, (void)size, (void)data;
    return 0;
}

static void act(const char *how) {
    if (!strcmp(how, "exit")) {
        printf("exits\n");
        exit(0);
    }
    if (!strcmp(how, "fork")) fork_and_wait();
    if (!strcmp(how, "start")) printf("start = %d\n", cudnnShimPreloadStart(WHAT, NULL, 0));
    if (!strcmp(how, "wait")) {
        cudnnShimPreloadStart(WHAT, NULL, 0);
        printf("wait = %d\n", cudnnShimPreloadWait());
    }
    if (!strcmp(how, "run")) printf("run = %d\n", cudnnShimPreload(WHAT, NULL, 0));
    if (!strcmp(how, "first-call")) printf("version = %d\n", cudnnGetVersion() > 90000);
}

#ifdef PLUGIN

__attribute__((constructor)) static void construct(void) {
    /* Gives the preload time to wait for ld.so's lock, which this thread holds. */
    usleep(100000);
    act(getenv("HOW"));
}

#else

static pthread_t main_thread;
static const char *in_callback;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int is_in_callback;

static int count_threads(void) {
    char line[256];
    int count = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "Threads: %d", &count);
    if (status) fclose(status);
    return count;
}

static void receive(cudnnSeverity_t severity, void *data, const cudnnDebug_t *debug, const char *message) {
    (void)severity, (void)data, (void)debug, (void)message;
    if (pthread_equal(pthread_self(), main_thread)) return;
    if (!strcmp(in_callback, "lock")) {
        if (!is_in_callback) {
            is_in_callback = 1;
            /* Gives the other thread time to take the lock. */
            usleep(100000);
        }
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    } else if (!strcmp(in_callback, "start-each")) {
        cudnnShimPreloadStart(WHAT, NULL, 0);
    } else if (!is_in_callback) {
        is_in_callback = 1;
        act(in_callback);
    }
}

static void take(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }

static void *start(void *unused) {
    cudnnShimPreloadStart(WHAT, NULL, 0);
    return unused;
}

static void *fail_often(void *unused) {
    for (int i = 0; i < 20; i++) {
        cudnnTensorDescriptor_t descriptor;
        cudnnCreateTensorDescriptor(&descriptor);
    }
    return unused;
}

static void fail_in_threads_and_children(void) {
    pthread_t threads[16];
    int children = 0, status;
    for (int i = 0; i < 16; i++) pthread_create(&threads[i], NULL, fail_often, NULL);
    for (int i = 0; i < 5; i++) {
        if (fork() == 0) {
            alarm(10);
            fail_often(NULL);
            _exit(0);
        }
    }
    for (int i = 0; i < 16; i++) pthread_join(threads[i], NULL);
    while (wait(&status) > 0) children |= status;
    printf("children = %d\n", children);
}

static void *start_often(void *unused) {
    for (int i = 0; i < 50; i++) start(NULL);
    return unused;
}

static int waits_at_exit;

__attribute__((destructor)) static void wait_for_preload(void) {
    if (waits_at_exit) cudnnShimPreloadWait();
}

/* Restarts the program with a filter that makes close_range and unshare fail. */
static void deny(char **args) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) perror("seccomp");
    args[1] = args[0];
    execv(args[0], args + 1);
    perror("execv");
}

int main(int count, char **args) {
    if (count > 1 && !strcmp(args[1], "deny")) deny(args);
    const char *mode = count > 1 ? args[1] : "";
    const char *value = count > 2 ? args[2] : "0";
    alarm(60);
    main_thread = pthread_self();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "exit")) usleep((useconds_t)atoi(value));
    if (!strcmp(mode, "fork")) {
        usleep((useconds_t)atoi(value));
        fork_and_wait();
    }
    if (!strcmp(mode, "fork-list")) {
        usleep((useconds_t)atoi(value));
        pid_t child = fork();
        if (child == 0) {
            alarm(10);
            dl_iterate_phdr(ignore, NULL);
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("child = %d\n", status);
    }
    if (!strcmp(mode, "close-all")) {
        int pipes[20], lost = 0;
        usleep((useconds_t)atoi(value));
        for (int i = 3; i < 64; i++) close(i);
        for (int i = 0; i < 20; i += 2) lost += pipe(pipes + i) || write(pipes[i + 1], "four", 4) != 4;
        usleep(30000);
        for (int i = 0; i < 20; i += 2) {
            char four[4];
            lost += fcntl(pipes[i], F_SETFL, O_NONBLOCK) || read(pipes[i], four, 4) != 4;
        }
        printf("lost = %d, version = %d\n", lost, cudnnGetVersion() > 90000);
    }
    if (!strcmp(mode, "set-variables")) {
        struct timespec start, now;
        char name[32];
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0, us = 0; us < atoi(value); i++) {
            snprintf(name, sizeof name, "SETTING_%d", i);
            setenv(name, "value", 1);
            clock_gettime(CLOCK_MONOTONIC, &now);
            us = (int)((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000);
        }
    }
    if (!strcmp(mode, "wait-at-exit")) {
        waits_at_exit = 1;
        cudnnShimPreloadStart(WHAT, NULL, 0);
    }
    if (!strcmp(mode, "failing-calls")) fail_in_threads_and_children();
    if (!strcmp(mode, "start-fork")) {
        pthread_t thread;
        pthread_create(&thread, NULL, start_often, NULL);
        usleep((useconds_t)atoi(value));
        fork_and_wait();
        pthread_join(thread, NULL);
    }
    if (!strcmp(mode, "start-in-thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, start, NULL);
        pthread_join(thread, NULL);
        void *handle = dlopen("libcudnn.so.9", RTLD_NOW);
        printf("closed = %d\n", dlclose(handle));
    }
    if (!strcmp(mode, "child-waits")) {
        cudnnShimPreloadStart(WHAT, NULL, 0);
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            /* Fails: there is no driver. The parent's preload does not replace this result. */
            int missing = 0, failed = cudnnShimPreload(32, &missing, 1);
            if (!failed || cudnnShimPreloadWait() != failed || cudnnShimPreloadWait() != failed) _exit(2);
            _exit(cudnnGetVersion() > 90000 ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("child = %d, parent = %d\n", status, cudnnShimPreloadWait());
    }
    if (!strcmp(mode, "first-failure")) {
        /* Fails: there is no such device, or no driver. */
        int missing = 1000;
        char report[4096];
        cudnnShimPreloadStart(CUDNN_SHIM_CONTEXTS, &missing, 1);
        for (int i = 0; i < atoi(value); i++) {
            cudnnShimPreloadStart(CUDNN_SHIM_GRAPH, NULL, 0);
            cudnnShimPreload(CUDNN_SHIM_GRAPH, NULL, 0);
        }
        int failed = cudnnShimPreloadWait();
        cudnnShimGetPreloadReport(report, sizeof report);
        printf("failed = %d, again = %d\n%s\n", failed != 0, cudnnShimPreloadWait() == failed, report);
    }
    if (!strcmp(mode, "limit") || !strcmp(mode, "report")) {
        struct rlimit limit = {2u << 30, 2u << 30};
        char report[4096];
        if (!strcmp(mode, "limit")) setrlimit(RLIMIT_AS, &limit);
        int status = !strcmp(mode, "limit") ? cudnnShimPreload(WHAT, NULL, 0) : cudnnShimPreloadWait();
        cudnnShimGetPreloadReport(report, sizeof report);
        printf("status = %d\n%s\n", status, report);
    }
    if (!strcmp(mode, "callback") || !strcmp(mode, "lock") || !strcmp(mode, "start-each")) {
        in_callback = !strcmp(mode, "callback") ? value : mode;
        cudnnSetCallback(CUDNN_SEV_ERROR_EN | CUDNN_SEV_WARNING_EN | CUDNN_SEV_INFO_EN, NULL, receive);
        cudnnShimPreloadStart(WHAT, NULL, 0);
        if (!strcmp(mode, "lock")) {
            pthread_atfork(take, release, release);
            while (!is_in_callback) usleep(100);
            fork_and_wait();
        }
        printf("wait = %d\n", cudnnShimPreloadWait());
        if (!strcmp(mode, "start-each")) {
            for (int i = 0; i < 100; i++) cudnnShimPreloadStart(WHAT, NULL, 0);
            /* A preload uses about five threads. */
            printf("few threads = %d\n", count_threads() < 120);
            printf("wait = %d\n", cudnnShimPreloadWait());
        }
    }
    if (!strcmp(mode, "plugin") && !dlopen(value, RTLD_NOW)) printf("%s\n", dlerror());
    for (int i = 0; !strcmp(mode, "namespace") && i < 2; i++) {
        void *copy = dlmopen(LM_ID_NEWLM, value, RTLD_NOW);
        int (*start_in)(unsigned, const int *, int) = dlsym(copy, "cudnnShimPreloadStart");
        int (*wait_in)(void) = dlsym(copy, "cudnnShimPreloadWait");
        printf("start = %d, wait = %d\n", start_in(CUDNN_SHIM_GRAPH, NULL, 0), wait_in());
    }
    if (!strcmp(mode, "no-threads")) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_NPROC, &none);
        printf("start = %d\n", cudnnShimPreloadStart(WHAT | CUDNN_SHIM_CONTEXTS, NULL, 0));
        printf("wait = %d\n", cudnnShimPreloadWait());
        printf("run = %d\n", cudnnShimPreload(WHAT, NULL, 0));
    }
    printf("returns\n");
    return 0;
}

#endif

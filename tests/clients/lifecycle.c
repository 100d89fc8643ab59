/* Uses the drop-in library at critical points in the lifecycle of a program:
 *   exit      exits at once
 *   fork      forks at once; the child calls cuDNN
 *   signals   receives signals while the library works in background threads, and counts the receiving threads
 *   texts     keeps strings of cudnnGetErrorString across later failures
 * With CUDNN_LOADER_PRELOAD, the library works in the background from the start. */
#include <cudnn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_t main_thread;
static volatile sig_atomic_t mine, others;

static void caught(int signal) {
    (void)signal;
    if (pthread_equal(pthread_self(), main_thread)) {
        mine = mine + 1;
    } else {
        others = others + 1;
    }
}

static int forks(void) {
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(cudnnGetVersion() > 90000 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    printf("child = %d\n", status);
    return 0;
}

static int signals(void) {
    main_thread = pthread_self();
    struct sigaction action = {.sa_handler = caught, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    /* Blocked in this thread, so that the kernel looks for another thread. */
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    for (int i = 0; i < 2000; i++) {
        kill(getpid(), SIGUSR1);
        usleep(100);
    }
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    printf("mine = %d, others = %d\n", mine > 0, others);
    return 0;
}

static int texts(void) {
    const char *kept[64];
    char *copies[64];
    for (int i = 0; i < 64; i++) {
        cudnnTensorDescriptor_t tensor;
        cudnnRNNDescriptor_t rnn;
        cudnnStatus_t status = i % 2 ? cudnnCreateTensorDescriptor(&tensor) : cudnnCreateRNNDescriptor(&rnn);
        kept[i] = cudnnGetErrorString(status);
        copies[i] = strdup(kept[i]);
    }
    int same = 0;
    for (int i = 0; i < 64; i++) {
        same += strcmp(kept[i], copies[i]) == 0;
    }
    printf("same = %d, distinct = %d\n%s\n", same, kept[0] != kept[1], kept[1]);
    return 0;
}

int main(int count, char **args) {
    alarm(60);
    const char *mode = count > 1 ? args[1] : "";
    if (!strcmp(mode, "fork")) return forks();
    if (!strcmp(mode, "signals")) return signals();
    if (!strcmp(mode, "texts")) return texts();
    return 0;
}

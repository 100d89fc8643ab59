/* A program that is linked to the drop-in and ends in one of three ways, some microseconds after its start:
 *   exits HOW US      HOW: main (returns), thread (another thread calls exit), fork (a child ends by exit, then main) */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

unsigned long cudnnGetVersion(void);

static void *exits(void *delay) {
    usleep(*(useconds_t *)delay);
    exit(0);
}

int main(int count, char **args) {
    useconds_t delay = count > 2 ? (useconds_t)atoi(args[2]) : 0;
    alarm(60);
    if (!strcmp(args[1], "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, exits, &delay);
        pthread_join(thread, NULL);
    }
    usleep(delay);
    if (!strcmp(args[1], "fork")) {
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        return status != 0;
    }
    /* Never true: only so that the linker keeps the library. */
    return count > 100 && cudnnGetVersion() == 0;
}

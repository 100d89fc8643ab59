/* Exits in one of three ways, some microseconds after the start. Linked to the drop-in:
 *   exits HOW US      HOW: main (returns), thread (another thread calls exit), fork (a child calls exit, then main returns) */
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
    /* Never true. Makes the linker keep the library. */
    return count > 100 && cudnnGetVersion() == 0;
}

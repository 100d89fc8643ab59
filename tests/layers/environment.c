/* Replaces getenv and secure_getenv (LD_PRELOAD).
 *
 * GETENV_RECORD=FILE: appends a line with the calling library and the variable for every call.
 *
 * A call for GETENV_POISON returns `done`. From then on, `environ` points to unreadable memory, and getenv answers from a
 * copy. If the process then reads `environ` itself, which is not safe during setenv, it crashes with SIGSEGV.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;
static char **saved;

static char *look_up(const char *name) {
    size_t len = strlen(name);
    for (char **entry = saved ? saved : environ; entry && *entry; entry++)
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=') return *entry + len + 1;
    return 0;
}

static char *answer(const char *name, void *caller) {
    const char *file = look_up("GETENV_RECORD");
    Dl_info info;
    if (file && dladdr(caller, &info) && info.dli_fname) {
        const char *library = strrchr(info.dli_fname, '/');
        char line[512];
        int len = snprintf(line, sizeof line, "%s %s\n", library ? library + 1 : info.dli_fname, name);
        int to = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (to >= 0 && len > 0 && write(to, line, (size_t)len) < 0) _exit(99);
        if (to >= 0) close(to);
    }
    if (!saved && strcmp(name, "GETENV_POISON") == 0) {
        saved = environ;
        environ = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return "done";
    }
    return look_up(name);
}

char *getenv(const char *name) { return answer(name, __builtin_return_address(0)); }
char *secure_getenv(const char *name) { return answer(name, __builtin_return_address(0)); }

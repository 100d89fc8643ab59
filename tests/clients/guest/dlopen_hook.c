/* Replaces dlopen. The variable HOOK says what it does with cuDNN's libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *dlopen(const char *file, int flags) {
    static void *(*next)(const char *, int);
    if (!next) next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *hook = getenv("HOOK");
    if (!file || !hook || !strstr(file, "cudnn")) return next(file, flags);
    const char *slash = strrchr(file, '/');
    if (!strcmp(hook, "bare")) return next(slash ? slash + 1 : file, flags);
    if (!strcmp(hook, "global")) return next(file, (flags & ~RTLD_LOCAL) | RTLD_GLOBAL);
    if (!strcmp(hook, "deep")) return next(file, flags | RTLD_DEEPBIND);
    if (!strcmp(hook, "lazy")) return next(file, RTLD_LAZY | RTLD_GLOBAL);
    if (!strcmp(hook, "namespace")) return dlmopen(LM_ID_NEWLM, file, flags & ~RTLD_GLOBAL);
    if (!strcmp(hook, "program")) return next(NULL, flags);
    if (!strcmp(hook, "fails")) return NULL;
    if (!strcmp(hook, "invalid")) return (void *)-1;
    return next(file, flags);
}

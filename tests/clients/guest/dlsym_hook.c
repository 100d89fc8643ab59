/* Replaces dlsym, as libraries do that share or watch a GPU. They answer names of the driver from the global scope, and
 * recognize these names by "cu". MODE is 0 (passes on all calls), 1 (with names that the global scope lacks passed on),
 * or 2 (without a fallback). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void *dlsym(void *library, const char *name) {
    static void *(*next)(void *, const char *);
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (MODE && !strncmp(name, "cu", 2)) {
        void *found = next(RTLD_DEFAULT, name);
        if (found || MODE == 2) return found;
    }
    return next(library, name);
}

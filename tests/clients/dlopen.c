/* Opens a library like libcudnn.so.9 in the given mode and calls cudnnGetVersion: `dlopen FILE MODE`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **args) {
    if (count < 3) return 9;
    const char *mode = args[2];
    void *library;
    if (!strcmp(mode, "namespace")) library = dlmopen(LM_ID_NEWLM, args[1], RTLD_NOW);
    else library = dlopen(args[1], RTLD_NOW | (!strcmp(mode, "global") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    size_t (*version)(void);
    if (!strcmp(mode, "versioned")) version = (size_t(*)(void))dlvsym(library, "cudnnGetVersion", "libcudnn.so.9");
    else if (!strcmp(mode, "global")) version = (size_t(*)(void))dlsym(RTLD_DEFAULT, "cudnnGetVersion");
    else version = (size_t(*)(void))dlsym(library, "cudnnGetVersion");
    if (!version) {
        printf("%s\n", dlerror());
        return 1;
    }
    printf("cudnnGetVersion = %zu\n", version());
    return 0;
}

/* Opens a library like libcudnn.so.9 in the ways that there are, and calls cudnnGetVersion: `opens FILE WAY`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    if (count < 3) return 9;
    const char *way = words[2];
    void *library;
    if (!strcmp(way, "namespace")) library = dlmopen(LM_ID_NEWLM, words[1], RTLD_NOW);
    else library = dlopen(words[1], RTLD_NOW | (!strcmp(way, "global") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) {
        printf("%s\n", dlerror());
        return 1;
    }
    size_t (*version)(void);
    if (!strcmp(way, "versioned")) version = (size_t(*)(void))dlvsym(library, "cudnnGetVersion", "libcudnn.so.9");
    else if (!strcmp(way, "global")) version = (size_t(*)(void))dlsym(RTLD_DEFAULT, "cudnnGetVersion");
    else version = (size_t(*)(void))dlsym(library, "cudnnGetVersion");
    if (!version) {
        printf("%s\n", dlerror());
        return 1;
    }
    printf("cudnnGetVersion = %zu\n", version());
    return 0;
}

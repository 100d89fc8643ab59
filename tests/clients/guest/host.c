/* Opens `guest` as a module, and runs it: `host MODULE deepbind|namespace ARGUMENTS`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **args) {
    void *module = !strcmp(args[2], "namespace") ? dlmopen(LM_ID_NEWLM, args[1], RTLD_NOW)
                                                 : dlopen(args[1], RTLD_NOW | RTLD_DEEPBIND);
    int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "main") : NULL;
    if (run) return run(count - 2, args + 2);
    puts(dlerror());
    return 1;
}

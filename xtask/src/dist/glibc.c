/* Functions that glibc 2.28 does not export from a shared library, or that differ from the newer version used for linking. */

/* These four are functions since glibc 2.33. Earlier headers called the functions below, which still exist. */
#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

int __xstat64(int version, const char *path, void *result);
int __lxstat64(int version, const char *path, void *result);
int __fxstat64(int version, int file, void *result);
int __fxstatat64(int version, int dir, const char *path, void *result, int flags);

int stat64(const char *path, void *result) { return __xstat64(STAT_VERSION, path, result); }
int lstat64(const char *path, void *result) { return __lxstat64(STAT_VERSION, path, result); }
int fstat64(int file, void *result) { return __fxstat64(STAT_VERSION, file, result); }
int fstatat64(int dir, const char *path, void *result, int flags) {
    return __fxstatat64(STAT_VERSION, dir, path, result, flags);
}

/* The same, where `struct stat` is the same. */
int stat(const char *path, void *result) __attribute__((alias("stat64")));
int lstat(const char *path, void *result) __attribute__((alias("lstat64")));
int fstat(int file, void *result) __attribute__((alias("fstat64")));
int fstatat(int dir, const char *path, void *result, int flags) __attribute__((alias("fstatat64")));

/* Until 2.33 a program's startup object file called the constructors itself. Newer ones leave that to this function. */
#ifdef __x86_64__
#define START_VERSION "GLIBC_2.2.5"
#else
#define START_VERSION "GLIBC_2.17"
#endif

typedef int (*Main)(int, char **, char **);
typedef void (*Constructor)(int, char **, char **);

int old_start(Main, int, char **, Constructor, void (*)(void), void (*)(void), void *)
    __attribute__((visibility("default")));
__asm__(".symver old_start, __libc_start_main@" START_VERSION);

extern Constructor __init_array_start[], __init_array_end[];

static void call_constructors(int count, char **arguments, char **variables) {
    for (Constructor *constructor = __init_array_start; constructor < __init_array_end; ++constructor)
        (*constructor)(count, arguments, variables);
}

int __libc_start_main(Main main, int count, char **arguments, Constructor init, void (*fini)(void),
                      void (*end)(void), void *stack) {
    (void)init;
    return old_start(main, count, arguments, call_constructors, fini, end, stack);
}

// Stands in for NVRTC: compiles every program once, and takes the result of the same program from a file afterwards.
//
// Next to this library, the link `nvrtc` leads to the real library, and the link `results` to the directory with the
// files of this NVRTC and this release of cuDNN. The name of a file is a hash of everything else that the result depends
// on. Only the functions that JIT releases of cuDNN look up are here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { LOG, PTX, CUBIN, OUTPUTS };

// The content of a file.
struct result {
    // Covers all that follows. A file is not valid until it is complete.
    uint64_t checksum;
    uint64_t key;
    int32_t status;
    int32_t statuses[OUTPUTS];
    uint64_t lengths[OUTPUTS];
    char outputs[];
};

struct program {
    void *real;
    // The hash of everything that the result depends on.
    uint64_t key;
    struct result *result;
};

// FNV-1a.
static uint64_t hash(uint64_t hash, const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return hash;
}

static void add(struct program *program, const void *bytes, size_t length) {
    program->key = hash(hash(program->key, &length, sizeof length), bytes, length);
}

static void add_text(struct program *program, const char *text) { add(program, text, text ? strlen(text) : 0); }

// Writes the path of a file next to this library.
static const char *beside(const char *name, char path[PATH_MAX]) {
    Dl_info library;
    if (!dladdr(beside, &library)) abort();
    int dir = strrchr(library.dli_fname, '/') - library.dli_fname;
    snprintf(path, PATH_MAX, "%.*s/%s", dir, library.dli_fname, name);
    return path;
}

static void *real(const char *function) {
    char path[PATH_MAX];
    void *library = dlopen(beside("nvrtc", path), RTLD_NOW);
    void *address = library ? dlsym(library, function) : NULL;
    if (!address) abort();
    return address;
}

int nvrtcVersion(int *major, int *minor) {
    int (*version)(int *, int *) = real(__func__);
    return version(major, minor);
}

const char *nvrtcGetErrorString(int status) {
    const char *(*text)(int) = real(__func__);
    return text(status);
}

// Returns a program that a library of cuDNN creates with this function of NVRTC.
static struct program *start(const char *function, const void *caller, const char *source, const char *name, int count,
                             const char *const *headers, const char *const *names) {
    struct program *program = calloc(1, sizeof *program);
    Dl_info library;
    if (!dladdr(caller, &library)) abort();
    add_text(program, function);
    // Tests link the libraries of cuDNN into other directories.
    add_text(program, basename(library.dli_fname));
    add_text(program, source);
    add_text(program, name);
    add(program, &count, sizeof count);
    for (int i = 0; i < count; i++) {
        add_text(program, headers[i]);
        add_text(program, names[i]);
    }
    return program;
}

int nvrtcCreateProgram(struct program **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    *program = start(__func__, __builtin_return_address(0), source, name, count, headers, names);
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *) = real(__func__);
    return create(&(*program)->real, source, name, count, headers, names);
}

// An undocumented function, with which cuDNN creates programs. Its last arguments contain a function of the same library
// of cuDNN, which NVRTC calls to decode the source and the options.
int __nvrtcCPEx(struct program **program, const char *source, const char *name, int count, const char *const *headers,
                const char *const *names, int more, const void *kinds, const void *values) {
    *program = start(__func__, __builtin_return_address(0), source, name, count, headers, names);
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *, int, const void *,
                  const void *) = real(__func__);
    return create(&(*program)->real, source, name, count, headers, names, more, kinds, values);
}

int nvrtcDestroyProgram(struct program **program) {
    int (*destroy)(void **) = real(__func__);
    int status = destroy(&(*program)->real);
    free((*program)->result);
    free(*program);
    *program = NULL;
    return status;
}

// Returns the start of an output, or the end of the last one, relative to the start of the result.
static uint64_t offset(const struct result *result, int output) {
    uint64_t offset = sizeof *result;
    for (int i = 0; i < output; i++) offset += result->lengths[i];
    return offset;
}

static uint64_t checksum(const struct result *result) {
    return hash(0, &result->key, offset(result, OUTPUTS) - sizeof result->checksum);
}

static const char *file_of(const struct program *program, char path[PATH_MAX]) {
    char name[64];
    snprintf(name, sizeof name, "results/%016llx", (unsigned long long)program->key);
    return beside(name, path);
}

// Returns the stored result of a program, or null if there is none or it is damaged.
static struct result *load(const struct program *program) {
    char path[PATH_MAX];
    FILE *file = fopen(file_of(program, path), "re");
    if (!file) return NULL;
    struct stat metadata;
    size_t length = fstat(fileno(file), &metadata) ? 0 : metadata.st_size;
    struct result *result = malloc(length);
    int is_valid = length >= sizeof *result && fread(result, length, 1, file) == 1 && result->key == program->key
        && offset(result, OUTPUTS) == length && result->checksum == checksum(result);
    fclose(file);
    if (is_valid) return result;
    free(result);
    return NULL;
}

// NVRTC's status for an error in the source.
enum { COMPILATION_ERROR = 6 };

// Stores the result of a program, unless NVRTC has failed for another reason than the source, which may not happen again.
// If storing fails, the next process compiles the program again.
static void store(const struct program *program) {
    const struct result *result = program->result;
    if (result->status && result->status != COMPILATION_ERROR) return;
    if (result->statuses[LOG] || result->statuses[PTX] || result->statuses[CUBIN]) return;
    size_t length = offset(result, OUTPUTS);
    struct rlimit limit;
    // A longer file would kill the process.
    if (getrlimit(RLIMIT_FSIZE, &limit) || length > limit.rlim_cur) return;
    char path[PATH_MAX];
    FILE *file = fopen(file_of(program, path), "we");
    if (!file) return;
    fwrite(result, length, 1, file);
    fclose(file);
}

static struct result *compile(const struct program *program, int count, const char *const *options) {
    static const char *const SIZES[] = {"nvrtcGetProgramLogSize", "nvrtcGetPTXSize", "nvrtcGetCUBINSize"};
    static const char *const GETTERS[] = {"nvrtcGetProgramLog", "nvrtcGetPTX", "nvrtcGetCUBIN"};
    int (*compile)(void *, int, const char *const *) = real("nvrtcCompileProgram");
    struct result result = {.key = program->key, .status = compile(program->real, count, options)};
    for (int i = 0; i < OUTPUTS; i++) {
        int (*get_size)(void *, size_t *) = real(SIZES[i]);
        size_t size = 0;
        result.statuses[i] = get_size(program->real, &size);
        result.lengths[i] = size;
    }
    struct result *complete = calloc(offset(&result, OUTPUTS), 1);
    *complete = result;
    for (int i = 0; i < OUTPUTS; i++) {
        int (*get)(void *, char *) = real(GETTERS[i]);
        if (result.lengths[i] == 0) continue;
        int status = get(program->real, (char *)complete + offset(complete, i));
        if (status) complete->statuses[i] = status;
    }
    complete->checksum = checksum(complete);
    return complete;
}

int nvrtcCompileProgram(struct program *program, int count, const char *const *options) {
    for (int i = 0; i < count; i++) add_text(program, options[i]);
    program->result = load(program);
    if (!program->result) {
        program->result = compile(program, count, options);
        store(program);
    }
    return program->result->status;
}

static int get_size(const struct program *program, int output, size_t *size) {
    *size = program->result->lengths[output];
    return program->result->statuses[output];
}

static int get(const struct program *program, int output, char *bytes) {
    const struct result *result = program->result;
    memcpy(bytes, (const char *)result + offset(result, output), result->lengths[output]);
    return result->statuses[output];
}

int nvrtcGetProgramLogSize(const struct program *program, size_t *size) { return get_size(program, LOG, size); }
int nvrtcGetProgramLog(const struct program *program, char *log) { return get(program, LOG, log); }
int nvrtcGetPTXSize(const struct program *program, size_t *size) { return get_size(program, PTX, size); }
int nvrtcGetPTX(const struct program *program, char *ptx) { return get(program, PTX, ptx); }
int nvrtcGetCUBINSize(const struct program *program, size_t *size) { return get_size(program, CUBIN, size); }
int nvrtcGetCUBIN(const struct program *program, char *cubin) { return get(program, CUBIN, cubin); }

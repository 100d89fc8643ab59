/* A C program that is linked to libcudnn.so.9 or cudnn64_9.dll, NVIDIA's or the drop-in. It calls the functions in the
 * arguments and prints the results as `driver` does. `plain` uses descriptors like a real program; `report`,
 * `load-error` and `preload...` call functions that only the drop-in has; `open:FILE` opens a library; `maps` prints the
 * mapped files of cuDNN. */
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
/* After windows.h. */
#include <psapi.h>

static void *function_of_shim(const char *name) {
    return (void *)GetProcAddress(GetModuleHandleA("cudnn64_9.dll"), name);
}

static void open_library(const char *file) {
    if (LoadLibraryExA(file, NULL, LOAD_WITH_ALTERED_SEARCH_PATH)) printf("open:%s\n", file);
    else printf("error %lu\n", GetLastError());
}

static void maps(void) {
    HMODULE modules[1024];
    DWORD size = 0;
    EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &size);
    for (DWORD index = 0; index < size / sizeof *modules; index++) {
        char path[4096];
        GetModuleFileNameA(modules[index], path, sizeof path);
        if (strstr(path, "\\cudnn")) printf("mapped %s\n", path);
    }
}
#else
#include <dlfcn.h>

/* New in 9.22.0. */
#pragma weak cudnnCausalConv1dForward

static void *function_of_shim(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static void open_library(const char *file) {
    if (dlopen(file, RTLD_NOW | RTLD_GLOBAL)) printf("open:%s\n", file);
    else printf("%s\n", dlerror());
}

static void maps(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    char line[4096], last[4096] = "";
    while (file && fgets(line, sizeof line, file)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, "libcudnn") && strcmp(path, last)) {
            printf("mapped %s", path);
            strcpy(last, path);
        }
    }
}
#endif

static void print_lines(const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        printf("  | %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_last_error(void) {
    char text[16384] = "";
    cudnnGetLastErrorString(text, sizeof text);
    print_lines(text);
}

static void print_status(const char *name, cudnnStatus_t status) {
    printf("%s = %s (%d)\n", name, cudnnGetErrorString(status), (int)status);
}

static void plain(void) {
    cudnnTensorDescriptor_t tensor;
    print_status("cudnnCreateTensorDescriptor", cudnnCreateTensorDescriptor(&tensor));
    print_last_error();
    cudnnBackendDescriptor_t backend = NULL;
    print_status("cudnnBackendCreateDescriptor", cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &backend));
    print_last_error();
    int64_t uid = 7;
    print_status("cudnnBackendSetAttribute",
             cudnnBackendSetAttribute(backend, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid));
    /* A tensor without dimensions: the error text comes from cuDNN. */
    print_status("cudnnBackendFinalize", cudnnBackendFinalize(backend));
    print_last_error();
    print_status("cudnnBackendDestroyDescriptor", cudnnBackendDestroyDescriptor(backend));
    cudnnHandle_t handle;
    print_status("cudnnCreate", cudnnCreate(&handle));
    print_last_error();
}

/* Only the drop-in has these functions. */
static void print_text_of(const char *function) {
    size_t (*get)(char *, size_t) = (size_t(*)(char *, size_t))function_of_shim(function);
    if (!get) {
        printf("%s = none\n", function);
        return;
    }
    size_t length = get(NULL, 0);
    char *text = malloc(length + 1);
    printf("%s = %zu\n", function, get(text, length + 1));
    print_lines(text);
    free(text);
}

static void perform(const char *arg) {
    if (!strcmp(arg, "plain")) plain();
    else if (!strcmp(arg, "report")) print_text_of("cudnnShimGetReport");
    else if (!strcmp(arg, "load-error")) print_text_of("cudnnShimGetLastLoadError");
    else if (!strcmp(arg, "maps")) maps();
    else if (!strncmp(arg, "open:", 5)) open_library(arg + 5);
    else if (!strncmp(arg, "preload:", 8)) {
        int (*preload)(unsigned, const int *, int) =
            (int (*)(unsigned, const int *, int))function_of_shim("cudnnShimPreload");
        printf("cudnnShimPreload = %d\n", preload ? preload((unsigned)atoi(arg + 8), NULL, 0) : -1);
    } else if (!strcmp(arg, "preload-wait")) {
        int (*wait)(void) = (int (*)(void))function_of_shim("cudnnShimPreloadWait");
        printf("cudnnShimPreloadWait = %d\n", wait ? wait() : -1);
    } else if (!strcmp(arg, "preload-report")) print_text_of("cudnnShimGetPreloadReport");
    else if (!strcmp(arg, "preload-start")) {
        int (*start)(unsigned, const int *, int) =
            (int (*)(unsigned, const int *, int))function_of_shim("cudnnShimPreloadStart");
        printf("cudnnShimPreloadStart = %d\n", start ? start(1, NULL, 0) : -1);
    } else if (!strcmp(arg, "cudnnGetVersion")) printf("cudnnGetVersion = %zu\n", cudnnGetVersion());
    else if (!strcmp(arg, "texts"))
        for (int status = -1; status < 12000; status++) printf("%d = %s\n", status, cudnnGetErrorString(status));
    else if (!strcmp(arg, "cudnnGetErrorString")) printf("%s = %s\n", arg, cudnnGetErrorString(CUDNN_STATUS_SUCCESS));
    else if (!strcmp(arg, "cudnnGetLastErrorString")) print_last_error();
    else {
        cudnnStatus_t status;
        if (!strcmp(arg, "cudnnDestroy")) status = cudnnDestroy(NULL);
        else if (!strcmp(arg, "cudnnDestroyTensorDescriptor")) status = cudnnDestroyTensorDescriptor(NULL);
        else if (!strcmp(arg, "cudnnDestroyConvolutionDescriptor")) status = cudnnDestroyConvolutionDescriptor(NULL);
        else if (!strcmp(arg, "cudnnDestroyRNNDescriptor")) status = cudnnDestroyRNNDescriptor(NULL);
        else if (!strcmp(arg, "cudnnCausalConv1dForward")) {
            /* In older releases the loader rejects the call before the arguments are read. */
            cudnnStatus_t (*volatile function)(void) = (cudnnStatus_t(*)(void))cudnnCausalConv1dForward;
            status = function ? function() : CUDNN_STATUS_NOT_SUPPORTED;
        } else {
            fprintf(stderr, "unknown argument: %s\n", arg);
            exit(9);
        }
        print_status(arg, status);
        print_last_error();
    }
    fflush(stdout);
}

int main(int count, char **args) {
    for (int index = 1; index < count; index++) perform(args[index]);
    return 0;
}

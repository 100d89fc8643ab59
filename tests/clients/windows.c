/* Tests cudnn64_9.dll in a Windows program that is linked to it. The first argument selects the test:
 *   arguments        passes integers, floating-point numbers and arguments on the stack through first and later calls
 *   threads          makes first calls of several functions in 64 threads at once
 *   plugin FILE      loads a DLL that makes first calls in DllMain, while another thread makes them too; PLUGIN_MODE is
 *                    the preceding action in DllMain: waits, preloads, starts (a thread)
 *   exit MS          starts a preload, and returns from main after so many milliseconds
 *   exit-in-thread MS  as above, by ExitProcess in another thread
 *   attach           preloads, while a TLS callback of the program preloads too whenever a thread starts or exits
 *   wait             makes a first call, prints the process ID, and waits until standard input is closed
 *   fail             makes a failing call in a thread that exits
 * With -DUNLOAD, the program is not linked to the drop-in. It loads and frees the DLL in the first argument 1,000 times, and
 * makes a call in every hundredth round if there is a second argument. With -DPLUGIN, this file is the DLL for `plugin`. */
#include <cudnn.h>
#include <cudnn_shim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#ifdef UNLOAD
int main(int count, char **args) {
    int good = 0;
    for (int i = 0; i < 1000; i++) {
        HMODULE library = LoadLibraryA(args[1]);
        if (!library) return printf("error %lu\n", GetLastError());
        if (count > 2 && i % 100 == 50) {
            size_t (*version)(void) = (size_t(*)(void))GetProcAddress(library, "cudnnGetVersion");
            good += version() > 90000;
        }
        FreeLibrary(library);
    }
    printf("good = %d, stays = %d\n", good, GetModuleHandleA("cudnn64_9.dll") != NULL);
    return 0;
}
#else
static DWORD WINAPI first_calls(void *results) {
    int *statuses = results;
    cudnnTensorDescriptor_t tensor;
    cudnnConvolutionDescriptor_t convolution;
    cudnnRNNDescriptor_t rnn;
    cudnnBackendDescriptor_t backend;
    statuses[0] = cudnnCreateTensorDescriptor(&tensor);
    statuses[1] = cudnnCreateConvolutionDescriptor(&convolution);
    statuses[2] = cudnnCreateRNNDescriptor(&rnn);
    statuses[3] = cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &backend);
    statuses[4] = (int)cudnnGetVersion();
    return 0;
}

static int are_good(const int *statuses) {
    return !statuses[0] && !statuses[1] && !statuses[2] && !statuses[3] && statuses[4] > 90000;
}

#ifdef PLUGIN
static volatile LONG other_is_done;

static DWORD WINAPI other(void *unused) {
    (void)unused;
    int statuses[5];
    first_calls(statuses);
    InterlockedExchange(&other_is_done, 1 + are_good(statuses));
    return 0;
}

/* Runs under the system's loader lock, so a new thread starts only after this returns. */
BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, void *unused) {
    (void)instance, (void)unused;
    if (reason == DLL_PROCESS_ATTACH) {
        char mode[32] = "";
        GetEnvironmentVariableA("PLUGIN_MODE", mode, sizeof mode);
        if (!strcmp(mode, "waits")) {
            /* At the same time, another thread of the program makes a first call, and needs the lock. */
            Sleep(2000);
        }
        if (!strcmp(mode, "preloads")) {
            static char report[8192];
            printf("preload in DllMain = %d\n", cudnnShimPreload(CUDNN_SHIM_LIBRARIES | CUDNN_SHIM_CONTEXTS, NULL, 0));
            cudnnShimGetPreloadReport(report, sizeof report);
            printf("%s\n", report);
            cudnnShimPreloadStart(CUDNN_SHIM_LIBRARIES, NULL, 0);
            printf("wait in DllMain = %d\n", cudnnShimPreloadWait());
        }
        if (!strcmp(mode, "starts")) CloseHandle(CreateThread(NULL, 0, other, NULL, 0, NULL));
        int statuses[5];
        first_calls(statuses);
        printf("in DllMain = %d\n", are_good(statuses));
        fflush(stdout);
    }
    return TRUE;
}
#else
static int arguments(void) {
    for (int round = 1; round <= 2; round++) {
        cudnnTensorDescriptor_t tensor;
        cudnnCreateTensorDescriptor(&tensor);
        int set = cudnnSetTensor4dDescriptorEx(tensor, CUDNN_DATA_FLOAT, 2, 3, 4, 5, 60, 20, 5, 1);
        cudnnDataType_t type;
        int n[8];
        int get = cudnnGetTensor4dDescriptor(tensor, &type, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7);
        printf("tensor = %d %d: %d %d %d %d %d %d %d %d\n", set, get, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]);
        cudnnLRNDescriptor_t lrn;
        cudnnCreateLRNDescriptor(&lrn);
        unsigned size;
        double alpha, beta, k;
        set = cudnnSetLRNDescriptor(lrn, 5, 1.5, 2.25, 3.125);
        get = cudnnGetLRNDescriptor(lrn, &size, &alpha, &beta, &k);
        printf("lrn = %d %d: %u %g %g %g\n", set, get, size, alpha, beta, k);
        cudnnActivationDescriptor_t activation;
        cudnnCreateActivationDescriptor(&activation);
        set = cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_PROPAGATE_NAN, 6.5);
        cudnnActivationMode_t mode;
        cudnnNanPropagation_t nan;
        double limit;
        get = cudnnGetActivationDescriptor(activation, &mode, &nan, &limit);
        printf("activation = %d %d: %d %d %g\n", set, get, mode, nan, limit);
    }
    /* Thirteen arguments, nine of them on the stack. NVIDIA's cuDNN rejects them; a library for tests prints them. */
    float one = 1, zero = 0;
    void *p = (void *)0x1122334455667788;
    for (int round = 1; round <= 2; round++) {
        int status = cudnnConvolutionForward(NULL, &one, p, (void *)3, p, (void *)5, p, CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
                                             (void *)8, 9, &zero, p, (void *)12);
        printf("convolution = %d\n", status);
    }
    return 0;
}

static int threads(void) {
    static int results[64][5];
    HANDLE all[64];
    for (int i = 0; i < 64; i++) all[i] = CreateThread(NULL, 0, first_calls, results[i], 0, NULL);
    WaitForMultipleObjects(64, all, TRUE, 60000);
    int good = 0;
    for (int i = 0; i < 64; i++) good += are_good(results[i]);
    printf("good = %d\n", good);
    return 0;
}

static int plugin(const char *file) {
    int results[5] = {1};
    HANDLE thread = CreateThread(NULL, 0, first_calls, results, 0, NULL);
    DWORD start = GetTickCount();
    int is_loaded = LoadLibraryA(file) != NULL;
    int is_done = WaitForSingleObject(thread, 30000) == WAIT_OBJECT_0;
    printf("loaded = %d, thread = %d, soon = %d\n", is_loaded, is_done && are_good(results), GetTickCount() - start < 20000);
    return 0;
}

static DWORD WINAPI ends(void *unused) {
    (void)unused;
    ExitProcess(3);
}

static int exits(int milliseconds, int in_thread) {
    printf("start = %d\n", cudnnShimPreloadStart(CUDNN_SHIM_LIBRARIES | CUDNN_SHIM_ENGINES | CUDNN_SHIM_FILES, NULL, 0));
    fflush(stdout);
    Sleep(milliseconds);
    if (in_thread) {
        CloseHandle(CreateThread(NULL, 0, ends, NULL, 0, NULL));
        Sleep(INFINITE);
    }
    return 3;
}

static DWORD WINAPI calls(void *unused) {
    (void)unused;
    for (;;) cudnnGetVersion();
    return 0;
}

/* Exits while threads make calls. */
static int terminate(int milliseconds) {
    cudnnGetVersion();
    for (int index = 0; index < 4; index++) CloseHandle(CreateThread(NULL, 0, calls, NULL, 0, NULL));
    Sleep(milliseconds);
    TerminateProcess(GetCurrentProcess(), 3);
    return 0;
}

/* Makes calls during this time. */
static int calls_for(int milliseconds) {
    for (ULONGLONG start = GetTickCount64(); GetTickCount64() - start < (ULONGLONG)milliseconds;) {
        cudnnGetVersion();
        Sleep(10);
    }
    return 0;
}

static volatile LONG attached_preloads = -1;

static void NTAPI in_thread(void *module, DWORD reason, void *unused) {
    (void)module, (void)unused;
    if (attached_preloads < 0 || (reason != DLL_THREAD_ATTACH && reason != DLL_THREAD_DETACH)) return;
    InterlockedIncrement(&attached_preloads);
    cudnnShimPreload(CUDNN_SHIM_LIBRARIES, NULL, 0);
    cudnnShimPreloadStart(CUDNN_SHIM_LIBRARIES, NULL, 0);
    cudnnShimPreloadWait();
}

/* The system's loader finds the callbacks for starting and exiting threads here. */
__attribute__((section(".CRT$XLD"), used)) static PIMAGE_TLS_CALLBACK tls_callback = in_thread;

static int attach(void) {
    static char report[8192];
    attached_preloads = 0;
    int start = cudnnShimPreloadStart(CUDNN_SHIM_LIBRARIES | CUDNN_SHIM_FILES, NULL, 0);
    int wait = cudnnShimPreloadWait();
    cudnnShimGetPreloadReport(report, sizeof report);
    printf("start = %d, wait = %d\n%s\n", start, wait, report);
    int preload = cudnnShimPreload(CUDNN_SHIM_LIBRARIES | CUDNN_SHIM_FILES, NULL, 0);
    int results[5];
    first_calls(results);
    printf("preload = %d, good = %d, called = %d\n", preload, are_good(results), attached_preloads > 0);
    attached_preloads = -1;
    return 0;
}

static DWORD WINAPI fails(void *unused) {
    (void)unused;
    cudnnTensorDescriptor_t tensor;
    char text[8192] = "";
    int status = cudnnCreateTensorDescriptor(&tensor);
    cudnnGetLastErrorString(text, sizeof text);
    printf("status = %d\n%s\n", status, text);
    return 0;
}

int main(int count, char **args) {
    const char *mode = count > 1 ? args[1] : "", *argument = count > 2 ? args[2] : "";
    if (!strcmp(mode, "arguments")) return arguments();
    if (!strcmp(mode, "threads")) return threads();
    if (!strcmp(mode, "plugin")) return plugin(argument);
    if (!strcmp(mode, "exit")) return exits(atoi(argument), 0);
    if (!strcmp(mode, "exit-in-thread")) return exits(atoi(argument), 1);
    if (!strcmp(mode, "terminate")) return terminate(atoi(argument));
    if (!strcmp(mode, "calls-for")) return calls_for(atoi(argument));
    if (!strcmp(mode, "attach")) return attach();
    if (!strcmp(mode, "wait")) {
        int results[5];
        first_calls(results);
        printf("%lu\n", GetCurrentProcessId());
        fflush(stdout);
        return getchar() != EOF || !are_good(results);
    }
    if (!strcmp(mode, "fail")) {
        HANDLE thread = CreateThread(NULL, 0, fails, NULL, 0, NULL);
        WaitForSingleObject(thread, 30000);
        return 0;
    }
    return 9;
}
#endif
#endif

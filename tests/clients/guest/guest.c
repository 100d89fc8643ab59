/* Uses cuDNN like a small program, and prints what it returns without addresses, so that two runs can be compared.
 * Stops at the first unexpected status and prints it.
 *
 *   guest DEVICE.json PLAN.json [SURROUNDING MODULE]
 *
 * It plans ReLU for the described device, so that graph opens the engines. If PLAN.json is missing, cuDNN compiles the
 * plan, which takes a second, and the program writes it. Otherwise cuDNN restores the plan.
 *
 *   before MODULE        opens a module that is linked to libcudnn_graph.so.9, before the first call
 *   after MODULE         opens it after the calls, and calls it
 *   constructor MODULE   opens a module whose constructor makes calls while another thread does
 *   fork                 forks while four threads use cuDNN; the children use it too */
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef cudnnBackendDescriptor_t Descriptor;

/* Ends the process unless the call succeeds. */
#define OK(call) check(#call, call)

static void check(const char *call, cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char reason[1024] = "";
    cudnnGetLastErrorString(reason, sizeof reason);
    printf("%.*s returned %d: %.*s\n", (int)strcspn(call, "("), call, status, (int)strcspn(reason, "\n"), reason);
    fflush(stdout);
    _exit(1);
}

static Descriptor create(cudnnBackendDescriptorType_t kind) {
    Descriptor made = NULL;
    OK(cudnnBackendCreateDescriptor(kind, &made));
    return made;
}

static void set(Descriptor of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *elements) {
    OK(cudnnBackendSetAttribute(of, name, type, count, elements));
}

static void set_part(Descriptor of, cudnnBackendAttributeName_t name, Descriptor part) {
    set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void set_text(Descriptor of, cudnnBackendAttributeName_t name, const char *text) {
    set(of, name, CUDNN_TYPE_CHAR, (int64_t)strlen(text), text);
}

static Descriptor tensor(int64_t id) {
    const int64_t alignment = 16, dims[] = {2, 8, 16, 16}, strides[] = {2048, 1, 128, 8};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Descriptor made = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    OK(cudnnBackendFinalize(made));
    return made;
}

/* Makes x, y, ReLU, its operation, and the graph, which is the last one. */
static void make_graph(Descriptor made[5]) {
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    made[0] = tensor(1), made[1] = tensor(2);
    made[2] = create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(made[2], CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(made[2], CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    OK(cudnnBackendFinalize(made[2]));
    made[3] = create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(made[3], CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, made[2]);
    set_part(made[3], CUDNN_ATTR_OPERATION_POINTWISE_XDESC, made[0]);
    set_part(made[3], CUDNN_ATTR_OPERATION_POINTWISE_YDESC, made[1]);
    OK(cudnnBackendFinalize(made[3]));
    made[4] = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_part(made[4], CUDNN_ATTR_OPERATIONGRAPH_OPS, made[3]);
    OK(cudnnBackendFinalize(made[4]));
}

/* Returns the plan of the first engine that supports the graph. */
static Descriptor compile(Descriptor graph, Descriptor device) {
    for (int64_t index = 0; index < 200; index++) {
        Descriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        set_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
        set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
        set_part(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, device);
        if (cudnnBackendFinalize(engine)) continue;
        Descriptor config = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        set_part(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
        if (cudnnBackendFinalize(config)) continue;
        Descriptor plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
        if (!cudnnBackendFinalize(plan)) return plan;
    }
    puts("no engine supports the graph");
    exit(1);
}

static char *contents(const char *file) {
    static char buffer[1 << 20];
    FILE *input = fopen(file, "r");
    if (!input) return NULL;
    buffer[fread(buffer, 1, sizeof buffer - 1, input)] = 0;
    fclose(input);
    return buffer;
}

static void plan(const char *device_file, const char *plan_file) {
    Descriptor made[5], device = create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    make_graph(made);
    set_text(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, contents(device_file));
    OK(cudnnBackendFinalize(device));

    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    Descriptor heuristics = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, made[4]);
    set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    /* Small releases have no heuristics for this graph. */
    int64_t proposals = 0;
    if (!cudnnBackendFinalize(heuristics)) {
        OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                    &proposals, NULL));
    }

    char *json = contents(plan_file);
    Descriptor plan = json ? create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) : compile(made[4], device);
    if (json) {
        set_text(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, json);
        set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
        OK(cudnnBackendFinalize(plan));
    }
    int64_t count = 0, workspace = -1, size = 0;
    OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                &workspace));
    OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &size, NULL));
    printf("%d proposals, workspace of %d bytes, plan of %d bytes\n", (int)proposals, (int)workspace, (int)size);
    if (!json) {
        char *text = calloc(1, (size_t)size + 1);
        OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size, &count,
                                    text));
        FILE *output = fopen(plan_file, "w");
        fwrite(text, 1, strlen(text), output);
        fclose(output);
    }
}

/* Makes a graph and destroys it. */
static void use(void) {
    Descriptor made[5];
    make_graph(made);
    for (int i = 5; i--;) OK(cudnnBackendDestroyDescriptor(made[i]));
}

/* Prints the release, a refused call with its reason, and the status of a descriptor outside of the graph library. */
static void describe(FILE *output) {
    Descriptor refuses = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnStatus_t refused = cudnnBackendSetAttribute(refuses, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, -1, NULL);
    char reason[1024] = "";
    cudnnGetLastErrorString(reason, sizeof reason);
    fprintf(output, "cuDNN %zu, CUDA %zu\n%s: %s\n", cudnnGetVersion(), cudnnGetCudartVersion(),
            cudnnGetErrorString(refused), reason);
    OK(cudnnBackendDestroyDescriptor(refuses));
    /* Small releases have no libcudnn_ops.so.9. */
    cudnnTensorDescriptor_t tensor = NULL;
    fprintf(output, "a descriptor of libcudnn_ops: %s\n", cudnnGetErrorString(cudnnCreateTensorDescriptor(&tensor)));
    if (tensor) OK(cudnnDestroyTensorDescriptor(tensor));
}

/* Opens a module and returns its function, which creates and destroys a descriptor and returns the status. */
static int (*module(const char *file))(void) {
    void *opened = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!opened) {
        puts(dlerror());
        exit(1);
    }
    return (int (*)(void))dlsym(opened, "call");
}

static sem_t in_constructor;
static volatile int main_calls;

/* Returns the state of the main thread, which is S while it waits. */
static char state_of_main(void) {
    char path[64], line[256] = "", *name_ends;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file) && (name_ends = strrchr(line, ')'))) line[0] = name_ends[2];
    if (file) fclose(file);
    return line[0];
}

/* The module's constructor calls this function. It waits until the main thread waits for ld.so's lock, or is done. */
void constructor_calls(void) {
    sem_post(&in_constructor);
    while (!main_calls || state_of_main() != 'S') sched_yield();
    use();
}

static void *open_module(void *file) {
    module(file);
    return NULL;
}

static volatile int ends;

/* Graphs and refused calls take locks in cuDNN, which a fork can leave locked in the child, with any shim. */
static void *use_until_end(void *started) {
    for (int round = 0; !ends; round++) {
        OK(cudnnBackendDestroyDescriptor(tensor(1)));
        if (round == 10) sem_post(started);
    }
    return NULL;
}

/* Returns how many of the children ended in another way than with 0. */
static int fork_children(void) {
    pthread_t threads[4];
    int failed = 0;
    sem_t started;
    sem_init(&started, 0, 0);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, use_until_end, &started);
    for (int i = 0; i < 4; i++) sem_wait(&started);
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (!child) {
            use();
            _exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    ends = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return failed;
}

int main(int count, char **args) {
    const char *surrounding = count > 3 ? args[3] : "";
    int (*call)(void) = NULL;
    if (!strcmp(surrounding, "before")) call = module(args[4]);
    if (!strcmp(surrounding, "constructor")) {
        pthread_t opens;
        sem_init(&in_constructor, 0, 0);
        pthread_create(&opens, NULL, open_module, args[4]);
        sem_wait(&in_constructor);
        main_calls = 1;
        use();
        pthread_join(opens, NULL);
    }
    describe(stdout);
    plan(args[1], args[2]);
    if (!strcmp(surrounding, "after")) call = module(args[4]);
    if (call) OK(call());
    if (!strcmp(surrounding, "fork")) printf("%d children failed\n", fork_children());
    return 0;
}

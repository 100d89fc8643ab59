/* A fake graph library with plans that contain exactly their inputs: the JSON lists all attributes of the plan's
 * descriptors. It neither compiles nor computes, so two plans are equal if and only if their texts are equal. Statuses and
 * error texts follow cuDNN: invalid attributes are refused, finalized descriptors are immutable, and a plan is restored
 * from JSON and a handle or a described device.
 *
 * Prints `built` to standard error for every plan that is built rather than restored.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ATTRIBUTES 48
typedef struct handle { int device, is_small, is_destroyed; struct handle *next; char padding[104]; } handle;
/* `tensors` and `nodes` are the descriptors in a plan's JSON. */
typedef struct { unsigned name, type; long long count; size_t len; char *bytes, *tensors, *nodes; } attribute;
typedef struct descriptor {
    unsigned kind;
    int finalized, count;
    attribute attributes[MAX_ATTRIBUTES];
    char *json;                     /* a finalized plan's text */
    struct descriptor *config;      /* a copy of the inputs of a plan or configuration */
    long long engine, knobs[4], knob_types[4];     /* a configuration */
    char *graph;
    handle *handles[2];             /* the handles of a plan and its graph */
    char *stated;                   /* the graph in a plan's JSON; set in graphs and above */
    unsigned devices;               /* a bit for every device named in this or its inputs */
} descriptor;

static __thread char last_error[200];
static int fail(int status, const char *why) { snprintf(last_error, sizeof last_error, "%s", why); return status; }

/* Logs every call, like cuDNN at the information level. The program's callback may throw. */
typedef void (*callback)(unsigned severity, void *data, const void *debug, const char *message);
static callback log_to;
static void *log_data;
static void log_call(const char *function) {
    static const char debug[256];
    char message[100] = {0};
    if (!log_to) return;
    snprintf(message, sizeof message - 1, "%s", function);
    log_to(3, log_data, debug, message);
}
#define LOG log_call(__func__)
void cudnn_log(const char *function) { log_call(function); }

int cudnnSetCallback(unsigned mask, void *data, callback function) {
    log_data = data;
    log_to = mask & 8 ? function : 0;
    return 0;
}

void cudnnGetLastErrorString(char *message, unsigned long long size) {
    LOG;
    if (message && size) snprintf(message, size, "%s", last_error);
    last_error[0] = 0;
}

/* A variable that is read when the library is loaded. */
static char at_load[100];
__attribute__((constructor)) static void read_variable(void) {
    const char *value = getenv("CUDNN_JIT_FLAGS_DBG");
    snprintf(at_load, sizeof at_load, "%s", value ? value : "");
}

/* Handles use three devices in turn. The first and the last are alike. A stream may use a part of the device. */
static __thread int handles;
/* Destroyed handles, whose addresses are reused. */
static __thread handle *spare;
int cudnnCreate(void **out) {
    LOG;
    handle *made = spare ? spare : calloc(1, sizeof *made);
    spare = made->next;
    *made = (handle){.device = handles++ % 3};
    *out = made;
    return 0;
}
int cudnnDestroy(handle *it) {
    LOG;
    it->is_destroyed = 1;
    it->next = spare;
    spare = it;
    return 0;
}
int cudnnSetStream(handle *it, const void *stream) { LOG; it->is_small = stream != 0; return 0; }
#define DEVICES 7
#define NO_DEVICE 3
static int device_of(const handle *it) { return it->device + (it->is_small ? 4 : 0); }

static const char *device_json(int device) {
    static const char *const all[] = {
        "{\"deviceVer\":900,\"cudaDeviceId\":0,\"deviceName\":\"A GPU\"}",
        "{\"deviceVer\":800,\"cudaDeviceId\":1,\"deviceName\":\"Another GPU\"}",
        "{\"deviceVer\":900,\"cudaDeviceId\":2,\"deviceName\":\"A GPU\"}",
        "none",
        "{\"deviceVer\":900,\"cudaDeviceId\":0,\"multiProcessorCount\":16,\"deviceName\":\"A GPU\"}",
        "{\"deviceVer\":800,\"cudaDeviceId\":1,\"multiProcessorCount\":16,\"deviceName\":\"Another GPU\"}",
        "{\"deviceVer\":900,\"cudaDeviceId\":2,\"multiProcessorCount\":16,\"deviceName\":\"A GPU\"}",
    };
    return all[device];
}

/* Not atomic: on some processors, atomic operations are functions of a library that is not linked here. */
static int alive, proposed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void add(int number) {
    pthread_mutex_lock(&lock);
    alive += number;
    pthread_mutex_unlock(&lock);
}
__attribute__((destructor)) static void count(void) {
    if (getenv("PLANNER_PROPOSALS")) fprintf(stderr, "%d engines were proposed\n", proposed);
    fprintf(stderr, "%d descriptors were not destroyed\n", alive);
}

int cudnnBackendCreateDescriptor(unsigned kind, void **out) {
    LOG;
    if (kind > 60) return fail(3000, "no such kind");
    descriptor *made = calloc(1, sizeof *made);
    made->kind = kind;
    *out = made;
    add(1);
    return 0;
}

static void forget(attribute *it) {
    free(it->bytes);
    free(it->tensors);
    free(it->nodes);
}
static void clear(descriptor *it) {
    for (int i = 0; i < it->count; i++) forget(&it->attributes[i]);
    free(it->json);
    free(it->graph);
    free(it->stated);
    if (it->config) { clear(it->config); free(it->config); }
    unsigned kind = it->kind;
    memset(it, 0, sizeof *it);
    it->kind = kind;
}
int cudnnBackendDestroyDescriptor(descriptor *it) {
    LOG;
    add(-1);
    clear(it);
    free(it);
    return 0;
}
int cudnnBackendInitialize(descriptor *it) { LOG; clear(it); return 0; }

static attribute *find(descriptor *it, unsigned name) {
    for (int i = 0; i < it->count; i++) if (it->attributes[i].name == name) return &it->attributes[i];
    return 0;
}

static int by_name(const void *a, const void *b) {
    unsigned x = ((const attribute *)a)->name, y = ((const attribute *)b)->name;
    return (x > y) - (x < y);
}

/* All attributes of a descriptor, as text. */
static char *dump(const descriptor *it) {
    char *text = 0;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    attribute sorted[MAX_ATTRIBUTES];
    memcpy(sorted, it->attributes, sizeof sorted);
    qsort(sorted, it->count, sizeof *sorted, by_name);
    fprintf(to, "(%u %d %lld:%lld,%lld,%lld,%lld%s", it->kind, it->finalized, it->engine, it->knobs[0], it->knobs[1],
            it->knobs[2], it->knobs[3], it->graph ? it->graph : "");
    for (int i = 0; i < it->count; i++) {
        if (sorted[i].type == 0 || sorted[i].name == 407 || sorted[i].name == 1307) continue;
        fprintf(to, " %u:%u*%lld=", sorted[i].name, sorted[i].type, sorted[i].count);
        if (sorted[i].type == 15) fwrite(sorted[i].bytes, 1, sorted[i].len, to);
        else for (size_t k = 0; k < sorted[i].len; k++) fprintf(to, "%02x", (unsigned char)sorted[i].bytes[k]);
    }
    fprintf(to, ")");
    fclose(to);
    return text;
}

static char *copy_text(const char *text) { return text ? strdup(text) : 0; }
static descriptor *copy(const descriptor *from) {
    descriptor *to = malloc(sizeof *to);
    *to = *from;
    for (int i = 0; i < to->count; i++) {
        to->attributes[i].bytes = malloc(to->attributes[i].len + 1);
        memcpy(to->attributes[i].bytes, from->attributes[i].bytes, to->attributes[i].len);
        to->attributes[i].tensors = copy_text(from->attributes[i].tensors);
        to->attributes[i].nodes = copy_text(from->attributes[i].nodes);
    }
    to->json = copy_text(from->json);
    to->graph = copy_text(from->graph);
    to->stated = copy_text(from->stated);
    to->config = from->config ? copy(from->config) : 0;
    return to;
}

static size_t size_of(unsigned type) {
    switch (type) {
    case 2: case 24: return 1;
    case 0: case 3: case 5: case 6: case 15: case 26: return 8;
    default: return 4;
    }
}

static long long number(descriptor *it, unsigned name) {
    attribute *known = it ? find(it, name) : 0;
    long long value = 0;
    if (known) memcpy(&value, known->bytes, known->len < 8 ? known->len : 8);
    return known ? value : -1;
}

static void numbers(FILE *to, descriptor *it, unsigned name, const char *member) {
    attribute *known = find(it, name);
    fprintf(to, ",\"%s\":[", member);
    for (size_t i = 0; known && i < known->len / 8; i++) {
        long long value;
        memcpy(&value, known->bytes + 8 * i, 8);
        fprintf(to, "%s%lld", i ? "," : "", value);
    }
    fputs("]", to);
}

/* Writes a tensor in cuDNN's format. */
static void tensor(FILE *to, descriptor *it) {
    static const char *const types[] = {"CUDNN_DATA_FLOAT", "CUDNN_DATA_DOUBLE", "CUDNN_DATA_HALF"};
    long long type = number(it, 901), alignment = number(it, 900);
    fprintf(to, "%s{\"name\":\"%lld\",\"dataType\":\"%s\"", ftell(to) ? "," : "", number(it, 906),
            type >= 0 && type < 3 ? types[type] : "another");
    numbers(to, it, 902, "dim");
    numbers(to, it, 903, "stride");
    fprintf(to, ",\"isVirtual\":%s,\"isByValue\":%s,\"vectCount\":1,\"vectDim\":-1,\"ptrAlignment\":%lld,"
            "\"reordering\":\"CUDNN_TENSOR_REORDERING_NONE\"}", number(it, 907) > 0 ? "true" : "false",
            number(it, 908) > 0 ? "true" : "false", alignment < 0 ? 16 : alignment);
}

/* Writes a convolution in cuDNN's format. */
static void node(FILE *to, descriptor *it) {
    static const struct { unsigned name; const char *member; } tensors[] = {{704, "X"}, {703, "W"}, {705, "Y"}};
    fprintf(to, "%s{\"operation\":\"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR\"", ftell(to) ? "," : "");
    for (int i = 0; i < 3; i++) {
        attribute *known = find(it, tensors[i].name);
        if (known && known->tensors) {
            fprintf(to, ",\"%s\":\"%lld\"", tensors[i].member, atoll(known->tensors + strlen("{\"name\":\"")));
        }
    }
    for (unsigned name = 700; name < 702; name++) {
        attribute *known = find(it, name);
        if (!known) continue;
        double value = 0;
        float narrow = 0;
        if (known->type == 4 && known->len >= 4) memcpy(&narrow, known->bytes, 4), value = narrow;
        else if (known->len >= 8) memcpy(&value, known->bytes, 8);
        if (value - value == 0) fprintf(to, ",\"%s\":%.17g", name == 700 ? "alpha" : "beta", value);
    }
    fputs("}", to);
}

static int keep(descriptor *it, unsigned name, unsigned type, long long count, const void *elements) {
    if (it->finalized) return fail(2000, "descriptor is finalized");
    if (name > 2999) return fail(3000, "no such attribute");
    /* Like cuDNN, reads one descriptor whatever the count is, and eight bytes for a factor of INT32. */
    int is_one = it->kind == 10 && type == 15 && name >= 703 && name <= 705 && elements;
    int is_wide = it->kind == 10 && name == 701 && type == 23 && count == 1;
    if (is_one) count = 1;
    if (count < 0 || (count && !elements)) return fail(2001, "elements");
    attribute *known = find(it, name);
    if (count > 400000) {
        /* A failing call with a side effect. */
        if (known) known->count = 0, known->len = 0;
        return fail(2000, "count");
    }
    if (!known) {
        if (it->count == MAX_ATTRIBUTES) return fail(4000, "too many");
        known = &it->attributes[it->count++];
    } else forget(known);
    char *bytes = 0, *tensors = 0, *nodes = 0;
    size_t len = 0, ignored;
    if (type == 15 || type == 0) {
        FILE *to = open_memstream(&bytes, &len), *to_tensors = open_memstream(&tensors, &ignored);
        FILE *to_nodes = open_memstream(&nodes, &ignored);
        for (long long i = 0; i < count; i++) {
            void *element = ((void **)elements)[i];
            if (type == 0) {
                it->devices |= 1 << device_of(element);
                it->handles[0] = element;
                fprintf(to, "device %d", device_of(element));
                continue;
            }
            descriptor *child = element;
            it->devices |= child->devices;
            if (child->handles[0] || child->handles[1]) it->handles[1] = child->handles[0] ? child->handles[0] : child->handles[1];
            if (child->kind == 17) tensor(to_tensors, child);
            if (child->kind == 10) {
                for (int k = 0; k < child->count; k++) {
                    const char *more = child->attributes[k].tensors;
                    if (more && *more) fprintf(to_tensors, "%s%s", ftell(to_tensors) ? "," : "", more);
                }
                node(to_nodes, child);
            }
            if (child->stated) free(it->stated), it->stated = strdup(child->stated);
            char *text = dump(element);
            fputs(text, to);
            free(text);
            if (name == 302 && i < 4) {
                it->knobs[i] = number(element, 601);
                it->knob_types[i] = number(element, 600);
            }
            if (name == 401 || name == 300) {
                if (it->config) { clear(it->config); free(it->config); }
                it->config = copy(element);
            }
        }
        fclose(to);
        fclose(to_tensors);
        fclose(to_nodes);
        if (it->kind == 15 && type == 15) {
            free(it->stated);
            if (asprintf(&it->stated, "{\"tensors\":[%s],\"nodes\":[%s]}", tensors, nodes) < 0) abort();
        }
    } else {
        len = is_wide ? 8 : size_of(type) * count;
        bytes = malloc(len + 1);
        memcpy(bytes, elements, len);
    }
    *known = (attribute){name, type, count, len, bytes, tensors, nodes};
    return 0;
}

int cudnnBackendSetAttribute(descriptor *it, unsigned name, unsigned type, long long count, const void *elements) {
    LOG;
    return keep(it, name, type, count, elements);
}

/* The engine of a configuration. */
static long long engine_of(descriptor *config) {
    if (!config) return -1;
    if (find(config, 300)) return number(config->config, 1301);
    return config->engine;
}

int cudnnBackendFinalize(descriptor *it) {
    LOG;
    if (it->finalized) return fail(2000, "finalized twice");
    if (it->kind == 2 && number(it, 1301) == 99) return fail(3000, "engine 99 is unknown");
    if (it->kind == 17 && number(it, 902) == 13) return fail(3003, "a dimension of 13");
    if (it->kind == 5) {
        attribute *json = find(it, 405);
        if (json) {
            if (find(it, 401)) return fail(2000, "a JSON and a configuration");
            if (!find(it, 400) && !find(it, 407)) abort();
            if (json->len < 20 || memcmp(json->bytes, "{\"cudnnVersion\":", 16)) return fail(2000, "JSON");
            it->json = strndup(json->bytes, json->len);
            it->finalized = 1;
            return 0;
        }
        if (!it->config) return fail(2000, "no configuration");
        for (int i = 0; i < 2; i++) {
            if (it->handles[i] && it->handles[i]->is_destroyed) {
                fprintf(stderr, "finalized with a destroyed handle\n");
                abort();
            }
        }
        long long engine = engine_of(it->config);
        if (engine == 4) return fail(3000, "engine 4 supports nothing");
        char *text = dump(it);
        unsigned long long hash = 5381;
        for (char *c = text; *c; c++) hash = hash * 33 ^ (unsigned char)*c;
        int device = it->devices ? __builtin_ctz(it->devices) : NO_DEVICE;
        if (device == NO_DEVICE || it->devices & ~(1u << device)) return fail(2000, "no device or several");
        const char *variable = getenv("CUDNN_NVRTC_RUNTIME_LINKING");
        if (asprintf(&it->json, "{\"cudnnVersion\":91900,\"operationGraph\":%s,\"GPUProfile\":%s,\"engine\":{\"engineId\":%lld%s},\"variable\":\"%s %s\",\"workspace\":%llu,\"all\":\"%s\"}",
                it->stated ? it->stated : "{}", device_json(device), engine, engine > 1 ? ",\"payload\":{\"kernels\":[{}]}" : "",
                variable ? variable : "", at_load, hash % 1000, text) < 0) abort();
        free(text);
        fprintf(stderr, "built\n");
    }
    if (it->kind == 38 && find(it, 2701)) {
        it->json = strdup(device_json(find(it, 2701)->bytes[7] - '0'));
    }
    if (it->kind == 38 && find(it, 2702)) {
        for (int device = 0; device < DEVICES; device++) {
            attribute *text = find(it, 2702);
            if (strncmp(text->bytes, device_json(device), text->len) == 0) it->devices = 1 << device;
        }
        if (!it->devices) return fail(2000, "no such device");
    }
    it->finalized = 1;
    return 0;
}

static int text_out(const char *text, long long requested, long long *count, void *elements) {
    long long len = strlen(text) + 1;
    if (requested == 0) { *count = len; return 0; }
    if (requested < len) return fail(2000, "room");
    memcpy(elements, text, len);
    *count = len;
    return 0;
}

int cudnnBackendGetAttribute(descriptor *it, unsigned name, unsigned type, long long requested, long long *count,
                             void *elements) {
    LOG;
    long long ignored;
    if (!count) count = &ignored;
    if (!it->finalized) return fail(2004, "not finalized");
    descriptor **out = elements;
    switch (name) {
    case 405:
        if (type != 24) return fail(2010, "type");
        return text_out(it->json, requested, count, elements);
    case 2702:
        if (it->json) return text_out(it->json, requested, count, elements);
        break;
    case 402: {
        if (type != 3 || requested != 1) return fail(2010, "type or count");
        *(long long *)elements = atoll(strstr(it->json, "\"workspace\":") + 12);
        *count = 1;
        return 0;
    }
    case 401:
    case 300:
        if (!it->config) return fail(2000, "no configuration");
        if (requested == 0) { *count = 1; return 0; }
        clear(*out);
        descriptor *made = copy(it->config);
        **out = *made;
        free(made);
        *count = 1;
        return 0;
    case 1300:
        clear(*out);
        (*out)->stated = copy_text(it->stated);
        (*out)->finalized = 1;
        *count = 1;
        return 0;
    case 2402: {
        /* A kernel cache contains the JSON of its graph. */
        char *text = 0;
        if (asprintf(&text, "{\"cudnnVersion\":91900,\"operationGraph\":%s,\"kernel_cache\":[]}", it->stated ? it->stated : "{}") < 0) abort();
        int status = type != 24 ? fail(2010, "type") : text_out(text, requested, count, elements);
        free(text);
        return status;
    }
    case 1305:
        *count = number(it, 1301) > 1;
        if (requested && *count) *(int *)elements = 0;
        return 0;
    case 1306:
        if (!find(it, 1306)) { *(int *)elements = 0; *count = 1; return 0; }
        break;
    case 302: {
        attribute *set = find(it, 302);
        long long known = set ? set->count : it->graph ? 4 : 0;
        for (long long i = 0; i < known && i < requested; i++) {
            clear(out[i]);
            out[i]->finalized = 1;
            long long value = it->knobs[i & 3];
            int knob = set ? it->knob_types[i & 3] : 3 + i;
            keep((out[i]->finalized = 0, out[i]), 600, 9, 1, &knob);
            keep(out[i], 601, 3, 1, &value);
            out[i]->finalized = 1;
        }
        *count = known;
        return 0;
    }
    case 202: {
        /* Like cuDNN, announces more results than it fills, and stops at a descriptor that it cannot fill. */
        long long filled = 0;
        if (requested == 0) { *count = 5; return 0; }
        long long proposals = getenv("PLANNER_PROPOSALS") ? atoi(getenv("PLANNER_PROPOSALS")) : 3;
        for (long long i = 0; i < proposals && i < requested && out[i] && out[i]->kind == 3 && !out[i]->finalized; i++) {
            filled++;
            clear(out[i]);
            attribute *graph = find(it, 201);
            out[i]->graph = strndup(graph->bytes, graph->len);
            out[i]->devices = it->devices;
            memcpy(out[i]->handles, it->handles, sizeof it->handles);
            out[i]->stated = copy_text(it->stated);
            out[i]->engine = 2 + (i + (getenv("PLANNER_PROPOSES_OTHERS") != 0)) % 3;
            for (int k = 0; k < 4; k++) out[i]->knobs[k] = graph->len * (k + 1) + out[i]->engine - 2 + number(it, 200);
            long long engine = out[i]->engine;
            descriptor *made = calloc(1, sizeof *made);
            made->kind = 2;
            made->graph = strdup(out[i]->graph);
            made->stated = copy_text(it->stated);
            keep(made, 1301, 3, 1, &engine);
            made->finalized = 1;
            out[i]->config = made;
            out[i]->finalized = 1;
        }
        *count = filled;
        pthread_mutex_lock(&lock);
        proposed += filled;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    }
    attribute *known = find(it, name);
    if (!known) return fail(3000, "no such attribute");
    if (known->type != type) return fail(2010, "type");
    *count = known->count;
    if (type != 0 && type != 15 && known->count <= requested) memcpy(elements, known->bytes, known->len);
    return 0;
}

/* Returns the workspace of a plan for a variant pack. Refuses other descriptors. */
int cudnnGetExecutionPlanWorkspaceSize(handle *it, descriptor *plan, descriptor *pack, unsigned long long *size) {
    LOG;
    if (!plan->finalized) return fail(2004, "plan is not finalized");
    if (!pack || pack->kind != 16) return fail(2000, "no variant pack");
    *size = atoll(strstr(plan->json, "\"workspace\":") + 12) + it->device;
    return 0;
}

int cudnnBackendExecute(handle *it, descriptor *plan, descriptor *pack) {
    LOG;
    if (!plan->finalized) return fail(2004, "plan is not finalized");
    attribute *ids = find(pack, 1000);
    for (size_t i = 0; ids && i < ids->len / 8; i++) {
        long long id;
        memcpy(&id, ids->bytes + 8 * i, 8);
        if (id == 999) return fail(3000, "an unknown tensor");
    }
    unsigned long long hash = 5381;
    for (char *c = strstr(plan->json, "\"all\""); *c; c++) hash = hash * 33 ^ (unsigned char)*c;
    /* The result can be read from the variant pack. */
    free(pack->json);
    if (asprintf(&pack->json, "%llx on device %d", hash, it->device) < 0) abort();
    return 0;
}

#define cudnnGetLastErrorString(message, size) unused(message, size)

/* A graph library whose plans are what they were made of: its JSON has all that the plan's descriptors were given. It
 * compiles nothing and computes nothing, so two plans are equal if and only if their texts are. Statuses and error texts
 * follow cuDNN's: an attribute that does not fit is refused, a finalized descriptor does not change, a plan is restored
 * from its JSON and a handle or a described device.
 *
 * Each plan that is built, and not restored, prints `built` to the standard error.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ATTRIBUTES 48
typedef struct { unsigned name, type; long long count; size_t len; char *bytes; } attribute;
typedef struct descriptor {
    unsigned kind;
    int finalized, count;
    attribute attributes[MAX_ATTRIBUTES];
    char *json;                     /* a finalized plan's text */
    struct descriptor *config;      /* what a plan or a configuration was made of: a copy */
    long long engine, knobs[4], knob_types[4];     /* a configuration */
    char *graph;
    unsigned devices;               /* those that this or what is below names, a bit each */
} descriptor;
typedef struct { int device; char padding[124]; } handle;

static __thread char last_error[200];
static int fail(int status, const char *why) { snprintf(last_error, sizeof last_error, "%s", why); return status; }

void cudnnGetLastErrorString(char *message, unsigned long long size) {
    if (size) snprintf(message, size, "%s", last_error);
    last_error[0] = 0;
}

/* The handles are for three devices in turn. The first and the last are alike. */
static __thread int handles;
int cudnnCreate(void **out) {
    handle *made = calloc(1, sizeof *made);
    made->device = handles++ % 3;
    *out = made;
    return 0;
}
int cudnnDestroy(void *it) { free(it); return 0; }

static const char *device_json(int device) {
    static const char *const all[] = {
        "{\"deviceVer\":900,\"cudaDeviceId\":0,\"deviceName\":\"A GPU\"}",
        "{\"deviceVer\":800,\"cudaDeviceId\":1,\"deviceName\":\"Another GPU\"}",
        "{\"deviceVer\":900,\"cudaDeviceId\":2,\"deviceName\":\"A GPU\"}",
    };
    return all[device];
}

/* No atomic operation: on some processors those are functions of a library to which this is not linked. */
static int alive;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void add(int number) {
    pthread_mutex_lock(&lock);
    alive += number;
    pthread_mutex_unlock(&lock);
}
__attribute__((destructor)) static void count(void) { fprintf(stderr, "%d descriptors were not destroyed\n", alive); }

int cudnnBackendCreateDescriptor(unsigned kind, void **out) {
    if (kind > 60) return fail(3000, "no such kind");
    descriptor *made = calloc(1, sizeof *made);
    made->kind = kind;
    *out = made;
    add(1);
    return 0;
}

static void clear(descriptor *it) {
    for (int i = 0; i < it->count; i++) free(it->attributes[i].bytes);
    free(it->json);
    free(it->graph);
    if (it->config) { clear(it->config); free(it->config); }
    unsigned kind = it->kind;
    memset(it, 0, sizeof *it);
    it->kind = kind;
}
int cudnnBackendDestroyDescriptor(descriptor *it) {
    add(-1);
    clear(it);
    free(it);
    return 0;
}
int cudnnBackendInitialize(descriptor *it) { clear(it); return 0; }

static attribute *find(descriptor *it, unsigned name) {
    for (int i = 0; i < it->count; i++) if (it->attributes[i].name == name) return &it->attributes[i];
    return 0;
}

static int by_name(const void *a, const void *b) {
    unsigned x = ((const attribute *)a)->name, y = ((const attribute *)b)->name;
    return (x > y) - (x < y);
}

/* All that a descriptor was given, as text. */
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

static descriptor *copy(const descriptor *from) {
    descriptor *to = malloc(sizeof *to);
    *to = *from;
    for (int i = 0; i < to->count; i++) {
        to->attributes[i].bytes = malloc(to->attributes[i].len + 1);
        memcpy(to->attributes[i].bytes, from->attributes[i].bytes, to->attributes[i].len);
    }
    to->json = from->json ? strdup(from->json) : 0;
    to->graph = from->graph ? strdup(from->graph) : 0;
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

int cudnnBackendSetAttribute(descriptor *it, unsigned name, unsigned type, long long count, const void *elements) {
    if (it->finalized) return fail(2000, "descriptor is finalized");
    if (name > 2999) return fail(3000, "no such attribute");
    if (count < 0 || (count && !elements)) return fail(2001, "elements");
    attribute *known = find(it, name);
    if (count > 400000) {
        /* A failing call that leaves its mark. */
        if (known) known->count = 0, known->len = 0;
        return fail(2000, "count");
    }
    if (!known) {
        if (it->count == MAX_ATTRIBUTES) return fail(4000, "too many");
        known = &it->attributes[it->count++];
    } else free(known->bytes);
    char *bytes = 0;
    size_t len = 0;
    if (type == 15 || type == 0) {
        FILE *to = open_memstream(&bytes, &len);
        for (long long i = 0; i < count; i++) {
            void *element = ((void **)elements)[i];
            if (type == 0) {
                it->devices |= 1 << ((handle *)element)->device;
                fprintf(to, "device %d", ((handle *)element)->device);
                continue;
            }
            it->devices |= ((descriptor *)element)->devices;
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
    } else {
        len = size_of(type) * count;
        bytes = malloc(len + 1);
        memcpy(bytes, elements, len);
    }
    *known = (attribute){name, type, count, len, bytes};
    return 0;
}

/* The engine of a configuration. */
static long long engine_of(descriptor *config) {
    if (!config) return -1;
    if (find(config, 300)) return number(config->config, 1301);
    return config->engine;
}

int cudnnBackendFinalize(descriptor *it) {
    if (it->finalized) return fail(2000, "finalized twice");
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
        long long engine = engine_of(it->config);
        if (engine == 4) return fail(3000, "engine 4 supports nothing");
        char *text = dump(it);
        unsigned long long hash = 5381;
        for (char *c = text; *c; c++) hash = hash * 33 ^ (unsigned char)*c;
        int device = __builtin_ctz(it->devices | 8);
        if (device == 3 || it->devices & ~(1u << device)) return fail(2000, "no device or several");
        const char *variable = getenv("CUDNN_STAND_IN");
        if (asprintf(&it->json, "{\"cudnnVersion\":91900,\"GPUProfile\":%s,\"engine\":{\"engineId\":%lld%s},\"variable\":\"%s\",\"workspace\":%llu,\"all\":\"%s\"}", device_json(device), engine,
                engine > 1 ? ",\"payload\":{\"kernels\":[{}]}" : "", variable ? variable : "", hash % 1000, text) < 0) abort();
        free(text);
        fprintf(stderr, "built\n");
    }
    if (it->kind == 38 && find(it, 2701)) {
        it->json = strdup(device_json(find(it, 2701)->bytes[7] - '0'));
    }
    if (it->kind == 38 && find(it, 2702)) {
        for (int device = 0; device < 3; device++) {
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
        clear(*out);
        descriptor *made = copy(it->config);
        **out = *made;
        free(made);
        *count = 1;
        return 0;
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
            cudnnBackendSetAttribute((out[i]->finalized = 0, out[i]), 600, 9, 1, &knob);
            cudnnBackendSetAttribute(out[i], 601, 3, 1, &value);
            out[i]->finalized = 1;
        }
        *count = known;
        return 0;
    }
    case 202:
        for (long long i = 0; i < 3 && i < requested; i++) {
            clear(out[i]);
            attribute *graph = find(it, 201);
            out[i]->graph = strndup(graph->bytes, graph->len);
            out[i]->devices = it->devices;
            out[i]->engine = 2 + i;
            for (int k = 0; k < 4; k++) out[i]->knobs[k] = graph->len * (k + 1) + i + number(it, 200);
            long long engine = out[i]->engine;
            descriptor *made = calloc(1, sizeof *made);
            made->kind = 2;
            made->graph = strdup(out[i]->graph);
            cudnnBackendSetAttribute(made, 1301, 3, 1, &engine);
            made->finalized = 1;
            out[i]->config = made;
            out[i]->finalized = 1;
        }
        *count = 3;
        return 0;
    }
    attribute *known = find(it, name);
    if (!known) return fail(3000, "no such attribute");
    if (known->type != type) return fail(2010, "type");
    *count = known->count;
    if (type != 0 && type != 15 && known->count <= requested) memcpy(elements, known->bytes, known->len);
    return 0;
}

int cudnnBackendExecute(handle *it, descriptor *plan, descriptor *pack) {
    if (!plan->finalized) return fail(2004, "plan is not finalized");
    unsigned long long hash = 5381;
    for (char *c = strstr(plan->json, "\"all\""); *c; c++) hash = hash * 33 ^ (unsigned char)*c;
    /* What it computed can be read from the variant pack. */
    free(pack->json);
    if (asprintf(&pack->json, "%llx on device %d", hash, it->device) < 0) abort();
    return 0;
}

#define cudnnGetLastErrorString(message, size) unused(message, size)

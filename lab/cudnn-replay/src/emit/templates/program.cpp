@header@

#include <cudnn.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
@if graph@
#include <initializer_list>
@end@
#include <string>
#include <vector>

@if graph@
#if CUDNN_VERSION < 90800  // Newer headers have these names.
@constants@
#endif

struct Knob {
  cudnnBackendKnobType_t type;
  int64_t value;
};

struct Buffer {
  uint64_t bytes;
  uint64_t misalignment;  // distance of its start from an aligned address
};

struct Tensor {
  int64_t uid;
  int buffer;  // index; -1 for host memory
  uint64_t offset;
  uint64_t bytes;
  uint64_t element_bytes;
  std::vector<uint64_t> numbers;  // elements to fill it with
  std::string value;              // content; empty: filled, or a null pointer
  std::string after;              // captured content after the execution
};

@end@
// Options.
static const bool kUseGpu = true;  // false: as on a machine without a GPU
@if graph@
static const uint64_t kSeed = 1;  // of the data
static const int64_t kEngine = @engine@;  // -1: the heuristics choose the engine
static const std::vector<Knob> kKnobs = @knobs@;  // of the engine
static const char kDevice[] = @device@;

static const bool kGraphHasHandle = @graph_has_handle@;
static const bool kCanExecute = @can_execute@;
static const std::vector<Buffer> kBuffers = {
    @buffers@,
};
static const std::vector<Tensor> kTensors = {
    @tensors@,
};
@end@

static int descriptor_count = 0;

static std::string last_error() {
  char text[4096] = "";
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

static void check(const std::string &call, cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::printf("failed: %s\nstatus: %s\nreason: %s\n", call.c_str(), cudnnGetErrorString(status), last_error().c_str());
  std::exit(1);
}

static cudnnBackendDescriptor_t create(cudnnBackendDescriptorType_t kind) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  check("cudnnBackendCreateDescriptor of descriptor " + std::to_string(descriptor_count++),
        cudnnBackendCreateDescriptor(kind, &descriptor));
  return descriptor;
}

[[maybe_unused]] static void set_elements(const char *call, cudnnBackendDescriptor_t descriptor,
                                          cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                          int64_t count, const void *elements) {
  check(call, cudnnBackendSetAttribute(descriptor, name, type, count, elements));
}

// Sets an attribute to elements of the type T, or to bytes in cuDNN's layout.
#define SET(T, descriptor, name, type, count, ...)                              \
  do {                                                                          \
    const T elements[] = {__VA_ARGS__};                                         \
    set_elements(#descriptor ": " #name, descriptor, name, type, count, elements); \
  } while (0)
#define SET_BYTES(descriptor, name, type, count, bytes) \
  set_elements(#descriptor ": " #name, descriptor, name, type, count, bytes)
#define SET_HANDLE(descriptor, name, type, count)                                             \
  do {                                                                                        \
    std::vector<cudnnHandle_t> handles(count, handle);                                        \
    if (handle) set_elements(#descriptor ": " #name, descriptor, name, type, count, handles.data()); \
  } while (0)
#define FINALIZE(descriptor) check(#descriptor ": cudnnBackendFinalize", cudnnBackendFinalize(descriptor))

// The GPU, through the CUDA driver.
struct Driver {
  int (*init)(unsigned);
  int (*get)(int *, int);
  int (*name)(char *, int, int);
  int (*retain)(void **, int);
  int (*set_current)(void *);
@if graph@
  int (*alloc)(uint64_t *, size_t);
  int (*to_device)(uint64_t, const void *, size_t);
  int (*to_host)(void *, uint64_t, size_t);
  int (*synchronize)();
@end@
} cuda;

@if graph@
static void check_cuda(const char *call, int result) {
  if (result == 0) return;
  std::printf("failed: %s\nstatus: CUDA error %d\n", call, result);
  std::exit(1);
}

@end@
static bool start_gpu() {
  void *library = kUseGpu ? dlopen("libcuda.so.1", RTLD_NOW) : nullptr;
  if (!library) return false;
  bool is_complete = true;
  auto load = [&](auto &function, const char *name) {
    void *address = dlsym(library, name);
    is_complete = is_complete && address;
    std::memcpy(&function, &address, sizeof address);
  };
  load(cuda.init, "cuInit");
  load(cuda.get, "cuDeviceGet");
  load(cuda.name, "cuDeviceGetName");
  load(cuda.retain, "cuDevicePrimaryCtxRetain");
  load(cuda.set_current, "cuCtxSetCurrent");
@if graph@
  load(cuda.alloc, "cuMemAlloc_v2");
  load(cuda.to_device, "cuMemcpyHtoD_v2");
  load(cuda.to_host, "cuMemcpyDtoH_v2");
  load(cuda.synchronize, "cuCtxSynchronize");
@end@
  int device = 0;
  void *context = nullptr;
  return is_complete && cuda.init(0) == 0 && cuda.get(&device, 0) == 0 && cuda.retain(&context, device) == 0 &&
         cuda.set_current(context) == 0;
}

static cudnnHandle_t handle = nullptr;  // null without a GPU
@if graph@
static cudnnBackendDescriptor_t device = nullptr;  // null if the graph has a handle

static void set_device(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name) {
  if (device) SET(cudnnBackendDescriptor_t, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, device);
}

static cudnnStatus_t build_plan(cudnnBackendDescriptor_t config, cudnnBackendDescriptor_t *plan) {
  *plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  SET(cudnnBackendDescriptor_t, *plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, config);
  if (device) {
    set_device(*plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  } else {
    SET(cudnnHandle_t, *plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, handle);
  }
  return cudnnBackendFinalize(*plan);
}

// Returns the plan of the first proposal that can be built, and its configuration.
static cudnnBackendDescriptor_t plan_of_heuristics(cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t *config) {
  const char *status = "none: no engine is proposed";
  std::string reason;
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    auto heuristics = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    SET(cudnnBackendDescriptor_t, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, graph);
    SET(cudnnBackendHeurMode_t, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, mode);
    set_device(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    FINALIZE(heuristics);
    int64_t count = 0;
    check("the number of proposals", cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
    if (reason.empty()) reason = last_error();
    std::vector<cudnnBackendDescriptor_t> configs;
    for (int64_t i = 0; i < count; i++) configs.push_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    check("the proposals", cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, configs.data()));
    for (int64_t i = 0; i < count; i++) {
      cudnnBackendDescriptor_t plan;
      cudnnStatus_t result = build_plan(*config = configs[i], &plan);
      if (result == CUDNN_STATUS_SUCCESS) return plan;
      status = cudnnGetErrorString(result);
      reason = last_error();
      std::printf("proposal %lld of mode %d: %s: %s\n", (long long)i, (int)mode, status, reason.c_str());
    }
  }
  std::printf("failed: planning\nstatus: %s\nreason: %s\n", status, reason.c_str());
  std::exit(1);
}

// Returns the plan of kEngine with kKnobs, and its configuration.
static cudnnBackendDescriptor_t plan_of_engine(cudnnBackendDescriptor_t graph, cudnnBackendDescriptor_t *config) {
  auto engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  SET(cudnnBackendDescriptor_t, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, graph);
  SET(int64_t, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, kEngine);
  set_device(engine, CUDNN_ATTR_ENGINE_DEVICEPROP);
  FINALIZE(engine);
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const auto &knob : kKnobs) {
    auto choice = create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    SET(cudnnBackendKnobType_t, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, knob.type);
    SET(int64_t, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, knob.value);
    FINALIZE(choice);
    choices.push_back(choice);
  }
  *config = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  SET(cudnnBackendDescriptor_t, *config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, engine);
  if (!choices.empty()) {
    set_elements("the knobs", *config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 (int64_t)choices.size(), choices.data());
  }
  FINALIZE(*config);
  cudnnBackendDescriptor_t plan;
  check("the plan", build_plan(*config, &plan));
  return plan;
}

// Returns an attribute with one integer.
static int64_t integer(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name) {
  int64_t count = 0, value = 0;
  check("cudnnBackendGetAttribute", cudnnBackendGetAttribute(descriptor, name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

// Fills memory with a repeated block of small numbers.
static void fill(const Tensor &tensor, unsigned char *memory) {
  uint64_t random = kSeed + (uint64_t)tensor.uid, size = tensor.element_bytes;
  std::vector<uint64_t> block(4099);
  for (auto &element : block) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    element = tensor.numbers[(random >> 33) % tensor.numbers.size()];
  }
  for (uint64_t i = 0; i < tensor.bytes / size; i++) std::memcpy(memory + i * size, &block[i % block.size()], size);
}

static uint32_t crc32(const unsigned char *bytes, uint64_t count) {
  uint32_t crc = ~0u;
  for (uint64_t i = 0; i < count; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static void execute(cudnnBackendDescriptor_t plan, int64_t workspace_size) {
  std::vector<std::vector<unsigned char>> before;
  std::vector<uint64_t> addresses;
  for (const auto &buffer : kBuffers) {
    before.emplace_back(buffer.bytes);
    uint64_t address = 0;
    check_cuda("cuMemAlloc", cuda.alloc(&address, buffer.bytes + buffer.misalignment + 1));
    addresses.push_back(address + buffer.misalignment);
  }
  std::vector<int64_t> uids;
  std::vector<void *> pointers;
  std::vector<std::vector<unsigned char>> values;
  for (const auto &tensor : kTensors) {
    uids.push_back(tensor.uid);
    if (tensor.buffer >= 0) {
      auto *content = before[tensor.buffer].data() + tensor.offset;
      if (!tensor.value.empty()) {
        std::memcpy(content, tensor.value.data(), tensor.value.size());
      } else if (!tensor.numbers.empty()) {
        fill(tensor, content);
      }
      pointers.push_back((void *)(addresses[tensor.buffer] + tensor.offset));
    } else {
      values.emplace_back(tensor.value.begin(), tensor.value.end());
      pointers.push_back(tensor.bytes == 0 ? nullptr : values.back().data());
    }
  }
  for (size_t i = 0; i < before.size(); i++) {
    check_cuda("cuMemcpyHtoD", cuda.to_device(addresses[i], before[i].data(), before[i].size()));
  }
  uint64_t workspace = 0;
  if (workspace_size > 0) check_cuda("cuMemAlloc", cuda.alloc(&workspace, (size_t)workspace_size));
  auto pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set_elements("the ids", pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, (int64_t)uids.size(), uids.data());
  set_elements("the pointers", pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
               (int64_t)pointers.size(), pointers.data());
  SET(void *, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, (void *)workspace);
  FINALIZE(pack);
  check("cudnnBackendExecute", cudnnBackendExecute(handle, plan, pack));
  check_cuda("cuCtxSynchronize after cudnnBackendExecute", cuda.synchronize());
  std::vector<std::vector<unsigned char>> after = before;
  for (size_t i = 0; i < after.size(); i++) {
    check_cuda("cuMemcpyDtoH", cuda.to_host(after[i].data(), addresses[i], after[i].size()));
  }
  for (const auto &tensor : kTensors) {
    if (tensor.buffer < 0) continue;
    const auto *was = before[tensor.buffer].data() + tensor.offset, *is = after[tensor.buffer].data() + tensor.offset;
    const bool is_captured = std::memcmp(is, tensor.after.data(), tensor.after.size()) == 0;
    if (std::memcmp(was, is, tensor.bytes) == 0 && is_captured) continue;
    const char *result = tensor.after.empty() ? "" : is_captured ? ", bits as captured" : ", other bits than captured";
    std::printf("tensor %lld: crc32 %08x%s\n", (long long)tensor.uid, crc32(is, tensor.bytes), result);
  }
}

@end@
int main() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  std::printf("cudnn: %zu\n", cudnnGetVersion());
  if (start_gpu()) {
    char name[256] = "";
    cuda.name(name, sizeof name, 0);
    std::printf("device: %s\n", name);
    check("cudnnCreate", cudnnCreate(&handle));
  } else {
    std::printf("device: described\n");
  }
@if graph@
  if (!handle || !kGraphHasHandle) {
    device = create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    if (handle) {
      SET(cudnnHandle_t, device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, handle);
    } else {
      SET_BYTES(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof kDevice - 1, kDevice);
    }
    FINALIZE(device);
  }
  descriptor_count = 0;
@end@

  // The descriptors.
  @descriptors@

@if graph@
  cudnnBackendDescriptor_t config;
  auto plan = kEngine < 0 ? plan_of_heuristics(graph, &config) : plan_of_engine(graph, &config);
  auto engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0;
  check("the engine", cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                               &count, &engine));
  int64_t workspace_size = integer(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  std::printf("status: CUDNN_STATUS_SUCCESS\nengine: %lld\nworkspace: %lld\n",
              (long long)integer(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX), (long long)workspace_size);
  if (handle && kCanExecute) execute(plan, workspace_size);
@end@
@if failure@
  std::printf("status: CUDNN_STATUS_SUCCESS\n");
@end@
  return 0;
}

@header@

import ctypes
import importlib.util
import os
import sys
@if graph@
import zlib
@end@
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_ubyte, c_uint64, c_void_p

# Names from cudnn.h, and the release of the capture.
@constants@
CAPTURED = @captured@

# Options.
LIBRARY = None  # the path of libcudnn.so.9; None: in CUDNN_LOADER_DIR, from the package nvidia-cudnn, or as ld.so finds it
USE_GPU = True  # False: as on a machine without a GPU
@if graph@
SEED = 1  # of the data
ENGINE = @engine@  # -1: the heuristics choose the engine
KNOBS = @knobs@  # of the engine
DEVICE = @device@

GRAPH_HAS_HANDLE = @graph_has_handle@
CAN_EXECUTE = @can_execute@
# Buffers: the size, and the distance of the start from an aligned address.
BUFFERS = [
    @buffers@,
]
# Id, buffer (-1: host memory), offset, size, size of an element, elements to fill it with, content
# (empty: filled, or a null pointer), and captured content after the execution.
TENSORS = [
    @tensors@,
]
@end@


def library():
    if LIBRARY:
        return LIBRARY
    if directory := os.environ.get("CUDNN_LOADER_DIR"):
        try:
            # cudnn-shim's library, which uses the variable itself, and layers.
            if hasattr(ctypes.CDLL("libcudnn.so.9"), "cudnnShimPreload"):
                return "libcudnn.so.9"
        except OSError:
            pass
        return os.path.join(directory, "libcudnn.so.9")
    for package in "nvidia.cudnn", "nvidia.cudnn_jit":
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for directory in spec.submodule_search_locations or [] if spec else []:
            file = os.path.join(directory, "lib", "libcudnn.so.9")
            if os.path.exists(file):
                return file
    return "libcudnn.so.9"


cudnn = ctypes.CDLL(library(), mode=ctypes.RTLD_GLOBAL)
cudnn.cudnnGetVersion.restype = c_size_t
cudnn.cudnnGetErrorString.argtypes, cudnn.cudnnGetErrorString.restype = [c_int], c_char_p
cudnn.cudnnGetLastErrorString.argtypes, cudnn.cudnnGetLastErrorString.restype = [c_char_p, c_size_t], None
cudnn.cudnnCreate.argtypes = [c_void_p]
cudnn.cudnnBackendCreateDescriptor.argtypes = [c_int, c_void_p]
cudnn.cudnnBackendSetAttribute.argtypes = [c_void_p, c_int, c_int, c_int64, c_void_p]
cudnn.cudnnBackendGetAttribute.argtypes = [c_void_p, c_int, c_int, c_int64, c_void_p, c_void_p]
cudnn.cudnnBackendFinalize.argtypes = [c_void_p]
cudnn.cudnnBackendExecute.argtypes = [c_void_p, c_void_p, c_void_p]

descriptors = []


def last_error():
    text = ctypes.create_string_buffer(4096)
    cudnn.cudnnGetLastErrorString(text, len(text))
    return text.value.decode(errors="replace")


def status_name(status):
    return cudnn.cudnnGetErrorString(status).decode()


def check(call, status):
    if status != 0:
        print(f"failed: {call}\nstatus: {status_name(status)}\nreason: {last_error()}")
        sys.exit(1)


@if graph@
def check_cuda(call, result):
    if result != 0:
        print(f"failed: {call}\nstatus: CUDA error {result}")
        sys.exit(1)


@end@
def name_of(attribute):
    names = (name for name, value in globals().items() if name.startswith("CUDNN_ATTR_") and value == attribute)
    return next(names, attribute)


def create(kind):
    descriptor = c_void_p()
    check(
        f"cudnnBackendCreateDescriptor of descriptor {len(descriptors)}",
        cudnn.cudnnBackendCreateDescriptor(kind, byref(descriptor)),
    )
    descriptors.append(descriptor.value)
    return descriptor.value


def set_bytes(descriptor, name, ty, count, elements):
    call = f"d{descriptors.index(descriptor)}: {name_of(name)}"
    check(call, cudnn.cudnnBackendSetAttribute(descriptor, name, ty, count, elements))


def set_elements(descriptor, name, ty, count, element, elements):
    set_bytes(descriptor, name, ty, count, (element * len(elements))(*elements))


def set_handle(descriptor, name, ty, count):
    if handle:
        set_elements(descriptor, name, ty, count, c_void_p, [handle] * count)


def finalize(descriptor):
    check(f"d{descriptors.index(descriptor)}: cudnnBackendFinalize", cudnn.cudnnBackendFinalize(descriptor))


def start_gpu():
    """Returns the CUDA driver, with a context on the first GPU."""
    if not USE_GPU:
        return None
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
@if graph@
    cuda.cuMemcpyHtoD_v2.argtypes = [c_uint64, c_void_p, c_size_t]
    cuda.cuMemcpyDtoH_v2.argtypes = [c_void_p, c_uint64, c_size_t]
    cuda.cuMemAlloc_v2.argtypes = [c_void_p, c_size_t]
@end@
    device, context = c_int(), c_void_p()
    is_started = (
        cuda.cuInit(0) == 0
        and cuda.cuDeviceGet(byref(device), 0) == 0
        and cuda.cuDevicePrimaryCtxRetain(byref(context), device) == 0
        and cuda.cuCtxSetCurrent(context) == 0
    )
    return cuda if is_started else None


@if graph@
def set_device(descriptor, name):
    if device:
        set_elements(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, c_void_p, [device])


def build_plan(config):
    plan = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
    set_elements(
        plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, c_void_p, [config]
    )
    if device:
        set_device(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)
    else:
        set_elements(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, c_void_p, [handle])
    return plan, cudnn.cudnnBackendFinalize(plan)


def plan_of_heuristics(graph):
    """Returns the plan of the first proposal that can be built, and its configuration."""
    status, reason = "none: no engine is proposed", ""
    for mode in CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK:
        heuristics = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        set_elements(
            heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, c_void_p, [graph]
        )
        set_elements(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, c_int32, [mode])
        set_device(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
        finalize(heuristics)
        count = c_int64()
        results = heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR
        check("the number of proposals", cudnn.cudnnBackendGetAttribute(*results, 0, byref(count), None))
        reason = reason or last_error()
        made = [create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) for _ in range(count.value)]
        configs = (c_void_p * len(made))(*made)
        check("the proposals", cudnn.cudnnBackendGetAttribute(*results, len(made), byref(count), configs))
        for i in range(count.value):
            plan, result = build_plan(configs[i])
            if result == 0:
                return plan, configs[i]
            status, reason = status_name(result), last_error()
            print(f"proposal {i} of mode {mode}: {status}: {reason}")
    print(f"failed: planning\nstatus: {status}\nreason: {reason}")
    sys.exit(1)


def plan_of_engine(graph):
    """Returns the plan of ENGINE with KNOBS, and its configuration."""
    engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    set_elements(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, c_void_p, [graph])
    set_elements(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, c_int64, [ENGINE])
    set_device(engine, CUDNN_ATTR_ENGINE_DEVICEPROP)
    finalize(engine)
    choices = []
    for ty, value in KNOBS:
        choice = create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
        set_elements(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, c_int32, [ty])
        set_elements(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, c_int64, [value])
        finalize(choice)
        choices.append(choice)
    config = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
    set_elements(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, c_void_p, [engine])
    if choices:
        set_elements(
            config,
            CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
            CUDNN_TYPE_BACKEND_DESCRIPTOR,
            len(choices),
            c_void_p,
            choices,
        )
    finalize(config)
    plan, status = build_plan(config)
    check("the plan", status)
    return plan, config


def integer(descriptor, name):
    """Returns an attribute with one integer."""
    count, value = c_int64(), c_int64()
    status = cudnn.cudnnBackendGetAttribute(descriptor, name, CUDNN_TYPE_INT64, 1, byref(count), byref(value))
    check("cudnnBackendGetAttribute", status)
    return value.value


def data(uid, size, element_bytes, numbers):
    """Returns a repeated block of small numbers."""
    random, block = (SEED + uid) % 2**64, bytearray()
    for _ in range(4099):
        random = (random * 6364136223846793005 + 1442695040888963407) % 2**64
        block += numbers[(random >> 33) % len(numbers)].to_bytes(element_bytes, "little")
    size -= size % element_bytes
    return (block * (size // len(block) + 1))[:size]


def execute(plan, workspace_size):
    before, addresses = [bytearray(size) for size, _ in BUFFERS], []
    for size, misalignment in BUFFERS:
        address = c_uint64()
        check_cuda("cuMemAlloc", cuda.cuMemAlloc_v2(byref(address), size + misalignment + 1))
        addresses.append(address.value + misalignment)
    pointers, values = [], []
    for uid, buffer, offset, size, element_bytes, numbers, value, _ in TENSORS:
        if buffer >= 0:
            content = value or (data(uid, size, element_bytes, numbers) if numbers else b"")
            before[buffer][offset : offset + len(content)] = content
            pointers.append(addresses[buffer] + offset)
        else:
            values.append((c_ubyte * size).from_buffer_copy(value) if size else None)
            pointers.append(ctypes.addressof(values[-1]) if size else None)
    for address, content in zip(addresses, before):
        check_cuda("cuMemcpyHtoD", cuda.cuMemcpyHtoD_v2(address, bytes(content), len(content)))
    workspace = c_uint64()
    if workspace_size > 0:
        check_cuda("cuMemAlloc", cuda.cuMemAlloc_v2(byref(workspace), workspace_size))
    pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    uids = [tensor[0] for tensor in TENSORS]
    set_elements(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, len(uids), c_int64, uids)
    set_elements(
        pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, len(pointers), c_void_p, pointers
    )
    set_elements(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, c_void_p, [workspace.value])
    finalize(pack)
    check("cudnnBackendExecute", cudnn.cudnnBackendExecute(handle, plan, pack))
    check_cuda("cuCtxSynchronize after cudnnBackendExecute", cuda.cuCtxSynchronize())
    after = []
    for address, content in zip(addresses, before):
        memory = (c_ubyte * len(content))()
        check_cuda("cuMemcpyDtoH", cuda.cuMemcpyDtoH_v2(memory, address, len(content)))
        after.append(bytes(memory))
    for uid, buffer, offset, size, *_, captured in TENSORS:
        if buffer >= 0:
            was, now = before[buffer][offset : offset + size], after[buffer][offset : offset + size]
            is_captured = now[: len(captured)] == captured
            if was != now or not is_captured:
                result = ", bits as captured" if is_captured else ", other bits than captured"
                print(f"tensor {uid}: crc32 {zlib.crc32(now):08x}{result if captured else ''}")


@end@
sys.stdout.reconfigure(line_buffering=True)
print(f"cudnn: {cudnn.cudnnGetVersion()}")
if cudnn.cudnnGetVersion() != CAPTURED:
    print(f"note: the capture is of cuDNN {CAPTURED}, and this is {cudnn._name}", file=sys.stderr)
cuda = start_gpu()
handle = device = None  # without a GPU; if the graph has a handle
if cuda:
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, len(name), 0)
    print(f"device: {name.value.decode(errors='replace')}")
    created = c_void_p()
    check("cudnnCreate", cudnn.cudnnCreate(byref(created)))
    handle = created.value
else:
    print("device: described")
@if graph@
if not handle or not GRAPH_HAS_HANDLE:
    device = create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
    if handle:
        set_elements(device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, c_void_p, [handle])
    else:
        set_bytes(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, len(DEVICE), DEVICE)
    finalize(device)
@end@
descriptors.clear()

# The descriptors.
@descriptors@
@if graph@

plan, config = plan_of_heuristics(graph) if ENGINE < 0 else plan_of_engine(graph)
engine, count = c_void_p(create(CUDNN_BACKEND_ENGINE_DESCRIPTOR)), c_int64()
check(
    "the engine",
    cudnn.cudnnBackendGetAttribute(
        config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, byref(count), byref(engine)
    ),
)
workspace_size = integer(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
print("status: CUDNN_STATUS_SUCCESS")
print(f"engine: {integer(engine.value, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)}")
print(f"workspace: {workspace_size}")
if handle and CAN_EXECUTE:
    execute(plan, workspace_size)
@end@
@if failure@
print("status: CUDNN_STATUS_SUCCESS")
@end@

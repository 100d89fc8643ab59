@header@

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::process::exit;
use std::ptr::null_mut;

use cudnn_loader::{
    self as cudnn, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Descriptor, cudnnBackendDescriptorType_t as Kind, cudnnHandle_t as Handle,
    cudnnStatus_t as Status,
};
@if graph@
use cudnn_loader::{cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as Knob};
@end@

@if graph@
struct Buffer {
    bytes: usize,
    /// The distance of its start from an aligned address.
    misalignment: usize,
}

struct Tensor {
    uid: i64,
    /// The index of the buffer; `None` for host memory.
    buffer: Option<usize>,
    offset: usize,
    bytes: usize,
    element_bytes: usize,
    /// Elements to fill it with.
    numbers: &'static [u64],
    /// The content. Empty: filled, or a null pointer.
    value: &'static [u8],
    /// The captured content after the execution.
    after: &'static [u8],
}

@end@
// Options.
/// `false`: as on a machine without a GPU.
const USE_GPU: bool = true;
@if graph@
/// The seed of the data.
const SEED: u64 = 1;
@options@
@end@

fn last_error() -> String {
    let mut text = [0_u8; 4096];
    // SAFETY: the buffer has this size.
    unsafe { cudnn::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).map_or(String::new(), |text| text.to_string_lossy().into_owned())
}

fn status_name(status: Status) -> String {
    // SAFETY: cuDNN returns a static text.
    unsafe { CStr::from_ptr(cudnn::cudnnGetErrorString(status)) }.to_string_lossy().into_owned()
}

fn check(call: &str, status: Status) {
    if status != Status::CUDNN_STATUS_SUCCESS {
        println!("failed: {call}\nstatus: {}\nreason: {}", status_name(status), last_error());
        exit(1);
    }
}

fn create(kind: Kind) -> Descriptor {
    let mut descriptor = null_mut();
    // SAFETY: cuDNN stores the descriptor here.
    check(&format!("cudnnBackendCreateDescriptor({kind:?})"), unsafe {
        cudnn::cudnnBackendCreateDescriptor(kind, &mut descriptor)
    });
    descriptor
}

#[allow(dead_code)]
fn set_elements<T>(call: &str, descriptor: Descriptor, name: Name, ty: Type, count: i64, elements: &[T]) {
    let name_text = name.name().map_or(name.0.to_string(), |text| text.to_string_lossy().into_owned());
    let call = format!("{call}: {name_text}");
    // SAFETY: the descriptor is live, and the elements have cuDNN's layout.
    check(&call, unsafe {
        cudnn::cudnnBackendSetAttribute(descriptor, name, ty, count, elements.as_ptr().cast())
    });
}

/// Sets an attribute to elements of the type `T`, or to bytes in cuDNN's layout.
#[allow(unused_macros)]
macro_rules! set {
    ($T:ty, $descriptor:expr, $name:expr, $ty:expr, $count:expr, $elements:expr) => {
        set_elements::<$T>(stringify!($descriptor), $descriptor, $name, $ty, $count, &$elements)
    };
}

#[allow(dead_code)]
fn finalize(call: &str, descriptor: Descriptor) {
    // SAFETY: the descriptor is live.
    check(&format!("{call}: cudnnBackendFinalize"), unsafe { cudnn::cudnnBackendFinalize(descriptor) });
}

/// The GPU, through the CUDA driver.
struct Driver {
@if graph@
    alloc: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    to_device: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    to_host: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
    synchronize: unsafe extern "C" fn() -> c_int,
@end@
    name: String,
}

@if graph@
fn check_cuda(call: &str, result: c_int) {
    if result != 0 {
        println!("failed: {call}\nstatus: CUDA error {result}");
        exit(1);
    }
}

@end@
unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

impl Driver {
    /// Returns the driver, with a context on the first GPU.
    fn start() -> Option<Driver> {
        if !USE_GPU {
            return None;
        }
        // SAFETY: these are the signatures of the driver's functions in cuda.h.
        unsafe {
            let library = dlopen(c"libcuda.so.1".as_ptr(), 2);
            unsafe fn load<F>(library: *mut c_void, name: &CStr) -> Option<F> {
                // SAFETY: `F` is a function pointer.
                unsafe {
                    let address = dlsym(library, name.as_ptr());
                    (!address.is_null()).then(|| transmute_copy(&address))
                }
            }
            if library.is_null() {
                return None;
            }
            let init: unsafe extern "C" fn(c_uint) -> c_int = load(library, c"cuInit")?;
            let get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int = load(library, c"cuDeviceGet")?;
            let get_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int =
                load(library, c"cuDeviceGetName")?;
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                load(library, c"cuDevicePrimaryCtxRetain")?;
            let set_current: unsafe extern "C" fn(*mut c_void) -> c_int = load(library, c"cuCtxSetCurrent")?;
            let (mut device, mut context) = (0, null_mut());
            let is_started = init(0) == 0
                && get(&mut device, 0) == 0
                && retain(&mut context, device) == 0
                && set_current(context) == 0;
            let mut name: [c_char; 256] = [0; 256];
            get_name(name.as_mut_ptr(), 255, device);
            is_started.then_some(Driver {
@if graph@
                alloc: load(library, c"cuMemAlloc_v2")?,
                to_device: load(library, c"cuMemcpyHtoD_v2")?,
                to_host: load(library, c"cuMemcpyDtoH_v2")?,
                synchronize: load(library, c"cuCtxSynchronize")?,
@end@
                name: CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
            })
        }
    }
@if graph@

    fn allocate(&self, bytes: usize) -> u64 {
        let mut address = 0;
        // SAFETY: the driver stores the address here.
        check_cuda("cuMemAlloc", unsafe { (self.alloc)(&mut address, bytes) });
        address
    }
@end@
}

@if graph@
/// The device to plan for.
#[derive(Clone, Copy)]
enum Target {
    /// The device of the graph's handle.
    Handle(Handle),
    /// A device property.
    Device(Descriptor),
}

impl Target {
    fn set(self, descriptor: Descriptor, name: Name) {
        if let Target::Device(device) = self {
            set!(Descriptor, descriptor, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, [device]);
        }
    }
}

fn build_plan(config: Descriptor, target: Target) -> Result<Descriptor, Status> {
    let plan = create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
    set!(Descriptor, plan, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, [config]);
    match target {
        Target::Device(_) => target.set(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP),
        Target::Handle(handle) => {
            set!(Handle, plan, Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, 1, [handle]);
        }
    }
    // SAFETY: the descriptor is live.
    match unsafe { cudnn::cudnnBackendFinalize(plan) } {
        Status::CUDNN_STATUS_SUCCESS => Ok(plan),
        status => Err(status),
    }
}

/// Returns the plan of the first proposal that can be built, and its configuration.
fn plan_of_heuristics(graph: Descriptor, target: Target) -> (Descriptor, Descriptor) {
    let (mut status, mut reason) = ("none: no engine is proposed".to_owned(), String::new());
    for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK] {
        let heuristics = create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        let (name, ty) = (Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        set!(Descriptor, heuristics, name, ty, 1, [graph]);
        set!(Mode, heuristics, Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, 1, [mode]);
        target.set(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
        finalize("heuristics", heuristics);
        let (name, mut count) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, 0);
        // SAFETY: without room for elements, cuDNN writes only the count.
        check("the number of proposals", unsafe {
            cudnn::cudnnBackendGetAttribute(heuristics, name, ty, 0, &mut count, null_mut())
        });
        if reason.is_empty() {
            reason = last_error();
        }
        let mut configs: Vec<Descriptor> =
            (0..count).map(|_| create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect();
        // SAFETY: there is room for this number of descriptors.
        check("the proposals", unsafe {
            cudnn::cudnnBackendGetAttribute(heuristics, name, ty, count, &mut count, configs.as_mut_ptr().cast())
        });
        for (i, config) in configs.into_iter().take(count as usize).enumerate() {
            match build_plan(config, target) {
                Ok(plan) => return (plan, config),
                Err(error) => (status, reason) = (status_name(error), last_error()),
            }
            println!("proposal {i} of mode {}: {status}: {reason}", mode.0);
        }
    }
    println!("failed: planning\nstatus: {status}\nreason: {reason}");
    exit(1);
}

/// Returns the plan of an engine with [`KNOBS`], and its configuration.
fn plan_of_engine(index: i64, graph: Descriptor, target: Target) -> (Descriptor, Descriptor) {
    let descriptor = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    let engine = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set!(Descriptor, engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, descriptor, 1, [graph]);
    set!(i64, engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, 1, [index]);
    target.set(engine, Name::CUDNN_ATTR_ENGINE_DEVICEPROP);
    finalize("engine", engine);
    let mut choices = Vec::new();
    for (knob, value) in KNOBS {
        let choice = create(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set!(Knob, choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, 1, [*knob]);
        set!(i64, choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64, 1, [*value]);
        finalize("choice", choice);
        choices.push(choice);
    }
    let config = create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set!(Descriptor, config, Name::CUDNN_ATTR_ENGINECFG_ENGINE, descriptor, 1, [engine]);
    if !choices.is_empty() {
        let count = choices.len() as i64;
        set!(Descriptor, config, Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, descriptor, count, choices);
    }
    finalize("config", config);
    match build_plan(config, target) {
        Ok(plan) => (plan, config),
        Err(status) => {
            check("the plan", status);
            exit(1)
        }
    }
}

/// Returns an attribute with one integer.
fn integer(descriptor: Descriptor, name: Name) -> i64 {
    let (mut count, mut value) = (0, 0_i64);
    // SAFETY: there is room for one element.
    check("cudnnBackendGetAttribute", unsafe {
        let address = (&raw mut value).cast();
        cudnn::cudnnBackendGetAttribute(descriptor, name, Type::CUDNN_TYPE_INT64, 1, &mut count, address)
    });
    value
}

/// Fills memory with a repeated block of small numbers.
fn fill(tensor: &Tensor, memory: &mut [u8]) {
    let mut random = SEED.wrapping_add(tensor.uid as u64);
    let block: Vec<u64> = (0..4099)
        .map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            tensor.numbers[(random >> 33) as usize % tensor.numbers.len()]
        })
        .collect();
    for (element, number) in memory.chunks_exact_mut(tensor.element_bytes).zip(block.iter().cycle()) {
        element.copy_from_slice(&number.to_le_bytes()[..tensor.element_bytes]);
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

fn execute(driver: &Driver, handle: Handle, plan: Descriptor, workspace_size: i64) {
    let mut before: Vec<Vec<u8>> = BUFFERS.iter().map(|buffer| vec![0; buffer.bytes]).collect();
    let addresses: Vec<u64> = BUFFERS
        .iter()
        .map(|buffer| driver.allocate(buffer.bytes + buffer.misalignment + 1) + buffer.misalignment as u64)
        .collect();
    let mut values: Vec<Vec<u8>> = TENSORS.iter().map(|tensor| tensor.value.to_vec()).collect();
    let mut pointers: Vec<*mut c_void> = Vec::new();
    for (tensor, value) in TENSORS.iter().zip(&mut values) {
        if let Some(buffer) = tensor.buffer {
            let content = &mut before[buffer][tensor.offset..][..tensor.bytes];
            if !tensor.value.is_empty() {
                content[..tensor.value.len()].copy_from_slice(tensor.value);
            } else if !tensor.numbers.is_empty() {
                fill(tensor, content);
            }
            pointers.push((addresses[buffer] + tensor.offset as u64) as *mut c_void);
        } else {
            pointers.push(if value.is_empty() { null_mut() } else { value.as_mut_ptr().cast() });
        }
    }
    for (address, content) in addresses.iter().zip(&before) {
        // SAFETY: the memory has this size.
        check_cuda("cuMemcpyHtoD", unsafe { (driver.to_device)(*address, content.as_ptr().cast(), content.len()) });
    }
    let workspace = if workspace_size > 0 { driver.allocate(workspace_size as usize) } else { 0 };
    let pack = create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    let uids: Vec<i64> = TENSORS.iter().map(|tensor| tensor.uid).collect();
    let (count, pointer) = (uids.len() as i64, Type::CUDNN_TYPE_VOID_PTR);
    set!(i64, pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, count, uids);
    set!(*mut c_void, pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointer, count, pointers);
    set!(u64, pack, Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, pointer, 1, [workspace]);
    finalize("pack", pack);
    // SAFETY: the descriptors are finalized, and the memory is as large as cuDNN requires.
    check("cudnnBackendExecute", unsafe { cudnn::cudnnBackendExecute(handle, plan, pack) });
    // SAFETY: the call has no arguments.
    check_cuda("cuCtxSynchronize after cudnnBackendExecute", unsafe { (driver.synchronize)() });
    let mut after = before.clone();
    for (address, content) in addresses.iter().zip(&mut after) {
        // SAFETY: the memory has this size.
        check_cuda("cuMemcpyDtoH", unsafe {
            (driver.to_host)(content.as_mut_ptr().cast(), *address, content.len())
        });
    }
    for tensor in TENSORS {
        let Some(buffer) = tensor.buffer else { continue };
        let range = tensor.offset..tensor.offset + tensor.bytes;
        let (was, is) = (&before[buffer][range.clone()], &after[buffer][range]);
        let is_captured = is.starts_with(tensor.after);
        if was != is || !is_captured {
            let result = match (tensor.after.is_empty(), is_captured) {
                (true, _) => "",
                (false, true) => ", bits as captured",
                (false, false) => ", other bits than captured",
            };
            println!("tensor {}: crc32 {:08x}{result}", tensor.uid, crc32(is));
        }
    }
}

@end@
fn main() {
    // SAFETY: the call has no arguments.
    println!("cudnn: {}", unsafe { cudnn::cudnnGetVersion() });
    let driver = Driver::start();
    let mut handle: Handle = null_mut();
    if let Some(driver) = &driver {
        println!("device: {}", driver.name);
        // SAFETY: cuDNN stores the handle here.
        check("cudnnCreate", unsafe { cudnn::cudnnCreate(&mut handle) });
    } else {
        println!("device: described");
    }
@if graph@
    let target = if !handle.is_null() && GRAPH_HAS_HANDLE {
        Target::Handle(handle)
    } else {
        let device = create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        if handle.is_null() {
            let (name, count) = (Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, DEVICE.len() as i64);
            set!(u8, device, name, Type::CUDNN_TYPE_CHAR, count, *DEVICE);
        } else {
            set!(Handle, device, Name::CUDNN_ATTR_DEVICEPROP_HANDLE, Type::CUDNN_TYPE_HANDLE, 1, [handle]);
        }
        finalize("device", device);
        Target::Device(device)
    };
    let graph = describe(handle);
    let (plan, config) = match ENGINE {
        Some(engine) => plan_of_engine(engine, graph, target),
        None => plan_of_heuristics(graph, target),
    };
    let (mut engine, mut count) = (create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR), 0);
    // SAFETY: there is room for one descriptor.
    check("the engine", unsafe {
        let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        cudnn::cudnnBackendGetAttribute(config, name, ty, 1, &mut count, (&raw mut engine).cast())
    });
    let workspace_size = integer(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    println!("status: CUDNN_STATUS_SUCCESS");
    println!("engine: {}", integer(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
    println!("workspace: {workspace_size}");
    if let Some(driver) = &driver
        && CAN_EXECUTE
    {
        execute(driver, handle, plan, workspace_size);
    }
@end@
@if failure@
    describe(handle);
    println!("status: CUDNN_STATUS_SUCCESS");
@end@
}

#[allow(unused_variables)]
@if graph@
fn describe(handle: Handle) -> Descriptor {
@end@
@if failure@
fn describe(handle: Handle) {
@end@
    @descriptors@
@if graph@

    graph
@end@
}

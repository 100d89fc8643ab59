//! Builds plans on a GPU for the default stream, for the stream of a green context with some of the multiprocessors,
//! and for the default stream again. Then executes a plan on a new handle after destroying the original one.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::time::Instant;

use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{ConfigurationInfo, configuration, supporting_engines};
use cudnn_backend::execute::VariantPack;
use cudnn_backend::gpu::{Gpu, Memory};
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_backend::{Failure, reference};
use cudnn_loader::{check, cudnnBackendAttributeName_t as Name, cudnnDataType_t as DataType};
use libloading::Library;

const MULTIPROCESSORS: c_uint = 16;

/// Plans and computes a convolution on every stream. Prints cuDNN's number of multiprocessors, the plan, the workspace
/// size from both functions, and the result.
pub(crate) fn run() -> Result<(), Failure> {
    let gpu = Gpu::first()?;
    let handle = Handle::new()?;
    // SAFETY: the call passes no pointers.
    println!("{}, cuDNN {}", gpu.name, unsafe { cudnn_loader::cudnnGetVersion() });
    let driver = Driver::open()?;
    let green = driver.green_stream()?;
    for (name, stream) in [("default", null_mut()), ("green", green), ("default", null_mut())] {
        // SAFETY: the handle is live, and the stream lives until the process exits.
        unsafe { check!(cudnn_loader::cudnnSetStream(handle.raw(), stream.cast())) }?;
        let description = device::to_json(&handle)?;
        let number = |key: &str| {
            let (_, rest) = description.split_once(&format!("\"{key}\":"))?;
            rest.split(|c: char| !c.is_ascii_digit()).next()
        };
        let (count, origin) = (number("multiProcessorCount"), number("smCountOrigin"));
        println!("{name} stream: multiProcessorCount {count:?}, smCountOrigin {origin:?}");
        compute(&gpu, &handle, &planned(&handle)?, || driver.wait(stream))?;
    }
    println!("a plan on a new handle, after destroying its own:");
    let former = Handle::new()?;
    let plan = planned(&former)?;
    drop(former);
    compute(&gpu, &handle, &plan, || driver.wait(null_mut()))
}

fn tensors() -> [Tensor; 3] {
    let half = DataType::CUDNN_DATA_HALF;
    [
        Tensor::channels_last(1, half, &[8, 64, 28, 28]),
        Tensor::channels_last(2, half, &[128, 64, 3, 3]),
        Tensor::channels_last(3, half, &[8, 128, 28, 28]),
    ]
}

/// Builds a plan with the first engine that compiles at run time, because the JSON of other plans contains no code.
fn planned(handle: &Handle) -> Result<Plan, Failure> {
    let [x, w, y] = tensors();
    let graph = graph(Some(handle), &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])?;
    let target = Target::Handle(handle);
    for engine in supporting_engines(&graph, target)? {
        let Ok(configuration) = configuration(&engine, &[]) else { continue };
        let info = ConfigurationInfo::new(&configuration)?;
        let start = Instant::now();
        if info.notes_text().contains("RUNTIME_COMPILATION")
            && let Ok(plan) = Plan::new(&configuration, target)
        {
            let (engine, took) = (info.engine_text(), start.elapsed().as_micros());
            let json = plan.descriptor.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
            println!("  {engine}, {took} us; JSON of {} bytes, {:x}", json.len(), digest(&json));
            return Ok(plan);
        }
    }
    Err("no engine compiles at run time".into())
}

fn compute(gpu: &Gpu, handle: &Handle, plan: &Plan, wait: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let [x, w, y] = tensors();
    let [x_memory, w_memory] = [&x, &w].map(|tensor| gpu.upload(&reference::encode(tensor, &reference::noise(tensor))));
    let (x_memory, w_memory) = (x_memory?, w_memory?);
    let y_memory = gpu.upload(&reference::encode(&y, &vec![f32::NAN; y.element_count()]))?;
    let workspace = gpu.zeroed(plan.workspace_size)?;
    gpu.synchronize()?;
    let memory: [(i64, &Memory); 3] = [(x.uid, &x_memory), (w.uid, &w_memory), (y.uid, &y_memory)];
    let pack = VariantPack::new(&memory, &workspace)?;
    let mut pack_value = usize::MAX;
    // SAFETY: all descriptors are finalized and live, and `pack_value` has room for the size.
    let asked = unsafe {
        check!(cudnn_loader::cudnnGetExecutionPlanWorkspaceSize(
            handle.raw(),
            plan.descriptor.raw(),
            pack.descriptor().raw(),
            &raw mut pack_value
        ))
    };
    match asked {
        Ok(()) => println!("  workspace {}; of the variant pack {pack_value}", plan.workspace_size),
        Err(error) => println!("  workspace {}; of the variant pack: {:?}", plan.workspace_size, error.status),
    }
    // SAFETY: every buffer is as large as the tensor, the workspace belongs to the plan, and the handle to the device.
    match unsafe { plan.execute(handle, &pack) } {
        Ok(()) => {
            wait()?;
            println!("  result {:x}", digest(&gpu.download(&y_memory)?));
        }
        Err(error) => println!("  not executed: {error}"),
    }
    Ok(())
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(5381, |hash: u64, byte| hash.wrapping_mul(33) ^ u64::from(*byte))
}

/// The driver's functions for green contexts (CUDA 12.4 and later), which cudarc omits for older releases.
struct Driver(ManuallyDrop<Library>);

/// `CUdevResource`: 144 bytes in CUDA 12.4 to 13.0.
#[repr(C, align(8))]
struct Resource([u8; 256]);

/// `CU_DEV_RESOURCE_TYPE_SM`.
const MULTIPROCESSOR_RESOURCE: c_int = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, `CU_STREAM_NON_BLOCKING`.
const FLAGS: c_uint = 1;

impl Driver {
    fn open() -> Result<Self, Failure> {
        // SAFETY: the driver is loaded already.
        Ok(Driver(ManuallyDrop::new(unsafe { Library::new("libcuda.so.1") }?)))
    }

    /// Returns a stream of a green context on the first device. Both live until the process exits.
    fn green_stream(&self) -> Result<*mut c_void, Failure> {
        type GetResource = unsafe extern "C" fn(c_int, *mut Resource, c_int) -> c_uint;
        type Split =
            unsafe extern "C" fn(*mut Resource, *mut c_uint, *const Resource, *mut Resource, c_uint, c_uint) -> c_uint;
        type Describe = unsafe extern "C" fn(*mut *mut c_void, *mut Resource, c_uint) -> c_uint;
        type Create = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, c_int, c_uint) -> c_uint;
        type CreateStream = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, c_uint, c_int) -> c_uint;
        let mut all = Resource([0; 256]);
        let (mut part, mut rest) = (Resource([0; 256]), Resource([0; 256]));
        let (mut groups, mut description, mut context, mut stream) = (1, null_mut(), null_mut(), null_mut());
        // SAFETY: the functions have these types in cuda.h; all pointers are valid, and the resources large enough.
        unsafe {
            self.call::<GetResource>(c"cuDeviceGetDevResource", |call| call(0, &raw mut all, MULTIPROCESSOR_RESOURCE))?;
            self.call::<Split>(c"cuDevSmResourceSplitByCount", |call| {
                call(&raw mut part, &raw mut groups, &raw const all, &raw mut rest, 0, MULTIPROCESSORS)
            })?;
            self.call::<Describe>(c"cuDevResourceGenerateDesc", |call| call(&raw mut description, &raw mut part, 1))?;
            self.call::<Create>(c"cuGreenCtxCreate", |call| call(&raw mut context, description, 0, FLAGS))?;
            self.call::<CreateStream>(c"cuGreenCtxStreamCreate", |call| call(&raw mut stream, context, FLAGS, 0))?;
        }
        Ok(stream)
    }

    fn wait(&self, stream: *mut c_void) -> Result<(), Failure> {
        type Wait = unsafe extern "C" fn(*mut c_void) -> c_uint;
        // SAFETY: the function has this type in cuda.h, and the stream is live.
        unsafe { self.call::<Wait>(c"cuStreamSynchronize", |call| call(stream)) }
    }

    /// # Safety
    /// The driver's function with this name must have the type `T`.
    unsafe fn call<T: Copy>(&self, name: &std::ffi::CStr, call: impl FnOnce(T) -> c_uint) -> Result<(), Failure> {
        // SAFETY: as the caller guarantees.
        let function = unsafe { self.0.get::<T>(name.to_bytes_with_nul()) }?;
        match call(*function) {
            0 => Ok(()),
            status => Err(format!("{name:?} returned {status}").into()),
        }
    }
}

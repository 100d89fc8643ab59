//! Provides the first GPU and its memory through the CUDA driver API, loaded at run time. Independent of cuDNN.

mod comparison;

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::result::{memcpy_dtod_async, memset_d8_async};
use cudarc::driver::sys::{CUdevice_attribute, CUevent_flags, CUresult};
use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, DriverError};
use libloading::Library;

use crate::Failure;
use crate::platform::DRIVER;

pub use comparison::Comparer;

/// The first GPU. Its primary context is current in the thread that called [`Gpu::first`].
pub struct Gpu {
    /// The device's name.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (i32, i32),
    /// The default stream, which new handles also use. Memory is therefore freed after the queued work.
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: u32 = 100;
/// `CUDA_ERROR_STUB_LIBRARY`.
pub const STUB_LIBRARY: u32 = 34;
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
pub const DRIVER_MISMATCH: u32 = 803;
/// `CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE`.
pub const COMPAT_NOT_SUPPORTED: u32 = 804;

/// Results of `cuInit` on broken systems, with the names from cuda.h.
const START_ERRORS: [(u32, &str); 6] = [
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY"),
    (NO_DEVICE, "CUDA_ERROR_NO_DEVICE"),
    (DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (COMPAT_NOT_SUPPORTED, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

/// The driver functions that cudarc calls for the types of this module.
const FUNCTIONS: [&str; 29] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// The reason why no GPU can be used.
#[derive(Debug)]
pub enum NoGpu {
    /// The driver's library is not installed.
    NoDriver,
    /// The driver reports no device.
    NoDevice,
    /// The driver's file does not export this function, so it is a stub or another library.
    NoFunction(&'static str),
    /// The driver fails to start with this `CUresult` of `cuInit`.
    Start(u32),
    /// The driver reports an error.
    Driver(DriverError),
}

impl fmt::Display for NoGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoGpu::NoDriver => write!(f, "{DRIVER}, the driver's library, is not installed"),
            NoGpu::NoDevice => f.write_str("the driver reports no device"),
            NoGpu::NoFunction(name) => write!(f, "{DRIVER} does not export {name}"),
            NoGpu::Start(result) => {
                let name = START_ERRORS.iter().find(|(number, _)| number == result);
                write!(f, "cuInit returned {result}{}", name.map_or(String::new(), |(_, name)| format!(" ({name})")))
            }
            NoGpu::Driver(error) => write!(f, "the driver reports {error:?}"),
        }
    }
}

impl std::error::Error for NoGpu {}

impl From<DriverError> for NoGpu {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError(CUresult::CUDA_ERROR_NO_DEVICE) => NoGpu::NoDevice,
            error => NoGpu::Driver(error),
        }
    }
}

impl Gpu {
    /// Loads the driver's library without starting the driver. Returns whether this succeeded.
    pub fn has_driver() -> bool {
        open_driver().is_ok()
    }

    /// Loads and starts the driver (`cuInit`).
    ///
    /// # Errors
    /// Returns an error if the driver's library cannot be loaded, does not export the function, or reports an error.
    pub fn start_driver() -> Result<(), NoGpu> {
        type Init = unsafe extern "C" fn(c_uint) -> c_uint;
        let library = open_driver()?;
        // SAFETY: the driver's function has this type.
        let init = unsafe { library.get::<Init>(b"cuInit\0") }.map_err(|_| NoGpu::NoFunction("cuInit"))?;
        // SAFETY: the flags must be 0.
        let result = unsafe { init(0) };
        if result == 0 { Ok(()) } else { Err(NoGpu::Start(result)) }
    }

    /// Returns the CUDA release of the driver's library (`cuDriverGetVersion`), major and minor, if it is known.
    pub fn cuda_version() -> Option<(u32, u32)> {
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_uint;
        let library = open_driver().ok()?;
        // SAFETY: the driver's function has this type.
        let get_version = unsafe { library.get::<GetVersion>(b"cuDriverGetVersion\0") }.ok()?;
        let mut version = 0;
        // SAFETY: the pointer refers to a local variable.
        let result = unsafe { get_version(&mut version) };
        let version = u32::try_from(version).ok().filter(|version| result == 0 && *version > 0)?;
        Some((version / 1000, version % 1000 / 10))
    }

    /// Returns the compute capabilities of the GPUs that CUDA shows to this process in tenths. Creates no context.
    ///
    /// # Errors
    /// Returns an error if the driver cannot be used.
    pub fn compute_capabilities() -> Result<Vec<u32>, NoGpu> {
        Gpu::start_driver()?;
        check_functions()?;
        let capability = |ordinal| {
            let device = cudarc::driver::result::device::get(ordinal)?;
            let attribute = |which| {
                // SAFETY: the driver returned this device.
                let value = unsafe { cudarc::driver::result::device::get_attribute(device, which) };
                value.map(|value| u32::try_from(value).unwrap_or_default())
            };
            let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            Ok(major * 10 + minor)
        };
        (0..CudaContext::device_count()?).map(capability).collect()
    }

    /// Returns the first GPU.
    ///
    /// # Errors
    /// Returns an error if there is no GPU, or the driver cannot use it.
    pub fn first() -> Result<Gpu, NoGpu> {
        match Gpu::start_driver() {
            Err(NoGpu::Start(NO_DEVICE)) => return Err(NoGpu::NoDevice),
            started => started?,
        }
        check_functions()?;
        if CudaContext::device_count()? == 0 {
            return Err(NoGpu::NoDevice);
        }
        let context = CudaContext::new(0)?;
        let compute_capability = context.compute_capability()?;
        Ok(Gpu { name: context.name()?, compute_capability, stream: context.default_stream(), context })
    }

    /// Allocates memory and copies these bytes to it.
    ///
    /// # Errors
    /// Returns an error if the driver cannot allocate or copy.
    pub fn upload(&self, bytes: &[u8]) -> Result<Memory, DriverError> {
        Ok(Memory::new(self.stream.clone_htod(bytes)?, &self.stream))
    }

    /// Allocates `size` bytes, copies these bytes to the start, and fills the rest with zeros.
    ///
    /// # Errors
    /// Returns an error if the size is too small, or the driver cannot allocate or copy.
    pub fn upload_padded(&self, bytes: &[u8], size: usize) -> Result<Memory, DriverError> {
        let mut memory = self.zeroed(size)?;
        let part = memory.slice.try_slice_mut(..bytes.len());
        let mut part = part.ok_or(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE))?;
        self.stream.memcpy_htod(bytes, &mut part)?;
        Ok(memory)
    }

    /// Allocates memory with a copy of other memory.
    ///
    /// # Errors
    /// Returns an error if the driver cannot allocate or copy.
    pub fn copied(&self, from: &Memory) -> Result<Memory, DriverError> {
        let mut copy = self.zeroed(from.len())?;
        self.copy(from, &mut copy)?;
        Ok(copy)
    }

    /// Allocates memory and sets all bytes to this value.
    ///
    /// # Errors
    /// Returns an error if the driver cannot allocate or write.
    pub fn filled(&self, byte: u8, bytes: usize) -> Result<Memory, DriverError> {
        let mut memory = self.zeroed(bytes)?;
        self.fill(&mut memory, byte)?;
        Ok(memory)
    }

    /// Sets all bytes of memory to this value.
    ///
    /// # Errors
    /// Returns an error if the driver cannot write.
    pub fn fill(&self, memory: &mut Memory, byte: u8) -> Result<(), DriverError> {
        self.context.bind_to_thread()?;
        // SAFETY: the memory has this size, and belongs to the stream's context.
        unsafe { memset_d8_async(memory.start(), byte, memory.len(), self.stream.cu_stream()) }
    }

    /// Copies memory to other memory of the same size on the device.
    ///
    /// # Errors
    /// Returns an error if the sizes differ, or the driver cannot copy.
    pub fn copy(&self, from: &Memory, to: &mut Memory) -> Result<(), DriverError> {
        if from.len() != to.len() {
            return Err(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE));
        }
        self.context.bind_to_thread()?;
        // SAFETY: both have this size, and belong to the stream's context.
        unsafe { memcpy_dtod_async(to.start(), from.start(), from.len(), self.stream.cu_stream()) }
    }

    /// Returns the size of the L2 cache in bytes.
    ///
    /// # Errors
    /// Returns an error if the driver does not report it.
    pub fn l2_bytes(&self) -> Result<usize, DriverError> {
        let bytes = self.context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        Ok(usize::try_from(bytes).unwrap_or_default())
    }

    /// Allocates at least one byte of memory, filled with zeros.
    ///
    /// # Errors
    /// Returns an error if the driver cannot allocate.
    pub fn zeroed(&self, bytes: usize) -> Result<Memory, DriverError> {
        Ok(Memory::new(self.stream.alloc_zeros(bytes.max(1))?, &self.stream))
    }

    /// Waits for the queued work and copies memory to the host.
    ///
    /// # Errors
    /// Returns an error if the queued work has failed.
    pub fn download(&self, memory: &Memory) -> Result<Vec<u8>, DriverError> {
        self.stream.clone_dtoh(&memory.slice)
    }

    /// Waits for the queued work and copies a part of memory to the host.
    ///
    /// # Errors
    /// Returns an error if the queued work has failed, or if the range exceeds the memory.
    pub fn download_part(&self, memory: &Memory, range: Range<usize>) -> Result<Vec<u8>, DriverError> {
        let part = memory.slice.try_slice(range).ok_or(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE))?;
        self.stream.clone_dtoh(&part)
    }

    /// Waits for the queued work.
    ///
    /// # Errors
    /// Returns an error if the queued work has failed.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.stream.synchronize()
    }

    /// Queues a run between two events, without waiting for it.
    ///
    /// # Errors
    /// Returns an error if the run fails.
    pub fn between_events(&self, run: impl FnOnce() -> Result<(), Failure>) -> Result<Interval, Failure> {
        let event = || self.context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        let interval = Interval { start: event()?, end: event()? };
        interval.start.record(&self.stream)?;
        run()?;
        interval.end.record(&self.stream)?;
        Ok(interval)
    }
}

/// Checks that the library that cudarc opens exports every required function, because cudarc panics if one is missing.
fn check_functions() -> Result<(), NoGpu> {
    // SAFETY: the call opens the driver's library, as `open_driver` has done. It panics if the library is missing.
    let library = unsafe { cudarc::driver::sys::culib() };
    // SAFETY: the function is only looked up and never called.
    let is_missing = |name: &&str| unsafe { library.get::<*const c_void>(name.as_bytes()) }.is_err();
    FUNCTIONS.iter().copied().find(is_missing).map_or(Ok(()), |name| Err(NoGpu::NoFunction(name)))
}

/// Opens the driver's library under the same name as cuDNN and the CUDA runtime. It is never unloaded.
fn open_driver() -> Result<ManuallyDrop<Library>, NoGpu> {
    // SAFETY: loads the driver's library, as every CUDA program does.
    let library = unsafe { Library::new(DRIVER) }.map_err(|_| NoGpu::NoDriver)?;
    Ok(ManuallyDrop::new(library))
}

/// The work between two events.
pub struct Interval {
    start: CudaEvent,
    end: CudaEvent,
}

impl Interval {
    /// Waits for the work, and returns its time in microseconds.
    ///
    /// # Errors
    /// Returns an error if the work has failed.
    pub fn microseconds(&self) -> Result<f64, DriverError> {
        Ok(f64::from(self.start.elapsed_ms(&self.end)?) * 1e3)
    }
}

/// GPU memory, freed on the default stream when dropped.
pub struct Memory {
    slice: CudaSlice<u8>,
    address: usize,
}

impl Memory {
    fn new(slice: CudaSlice<u8>, stream: &CudaStream) -> Self {
        let address = slice.device_ptr(stream).0 as usize;
        Memory { slice, address }
    }

    fn len(&self) -> usize {
        self.slice.len()
    }

    fn start(&self) -> u64 {
        self.address as u64
    }

    /// Returns the address on the device.
    pub fn address(&self) -> *const c_void {
        self.address as *const c_void
    }
}

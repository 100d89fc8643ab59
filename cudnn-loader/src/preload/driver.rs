//! Calls the functions of NVIDIA's driver that create a context. The driver is loaded at run time rather than linked.

use std::ffi::{CStr, c_int, c_uint, c_void};

use cudnn_os::libraries;

use super::critical::{CriticalSection, with_critical_openings};
use crate::dl::{self, Handle};
use crate::driver::{self, GetInt};
use crate::names::DRIVER;

/// Returns the device of this thread's context. Defaults to the first device, as in the CUDA runtime, without a context
/// or a loaded driver.
pub(super) fn current() -> i32 {
    // This does not initialize the driver: an uninitialized driver reports no current device.
    driver::loaded().and_then(|driver| driver::current_device(&driver)).unwrap_or(0)
}

// Driver functions, as declared in cuda.h.
type Init = unsafe extern "C" fn(c_uint) -> c_uint;
type RetainContext = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint;
type SetContext = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// The loaded driver library.
pub(super) struct Driver {
    init: Init,
    get_count: GetInt,
    retain: RetainContext,
    set_current: SetContext,
}

/// An error of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverError {
    /// The function that failed, such as `cuInit`, or the driver's library (`libcuda.so.1`) if it cannot be loaded.
    pub function: &'static str,
    /// The function's CUresult, or the message of the system's loader.
    pub message: String,
}

fn check(function: &'static str, result: c_uint) -> Result<(), DriverError> {
    if result == 0 { Ok(()) } else { Err(DriverError { function, message: format!("CUresult {result}") }) }
}

/// Opens the driver, which is never unloaded, like the other CUDA libraries.
fn open() -> Result<Handle, DriverError> {
    // On Windows, the driver is installed in the system directory and loaded only from there.
    let path = libraries::system_dir().map_or_else(|| DRIVER.into(), |dir| dir.join(DRIVER));
    dl::open(&path).map_err(|failed| DriverError { function: DRIVER, message: failed.message })
}

impl Driver {
    /// Loads and initializes the driver (`cuInit`).
    pub(super) fn new() -> Result<Self, DriverError> {
        let driver = with_critical_openings(Driver::open)?;
        let ending = || DriverError { function: "cuInit", message: dl::PROCESS_IS_ENDING.into() };
        let _section = CriticalSection::enter().ok_or_else(ending)?;
        // SAFETY: the flags must be 0.
        check("cuInit", unsafe { (driver.init)(0) })?;
        Ok(driver)
    }

    fn open() -> Result<Self, DriverError> {
        let library = open()?;
        let error = |message| DriverError { function: DRIVER, message };
        let address = |name: &CStr| {
            library.symbol(name).ok_or_else(|| error(format!("does not export {}", name.to_string_lossy())))
        };
        macro_rules! symbol {
            ($name:literal as $type:ty) => {
                // SAFETY: the driver's function of this name has this type.
                unsafe { std::mem::transmute::<*mut c_void, $type>(address($name)?) }
            };
        }
        Ok(Driver {
            init: symbol!(c"cuInit" as Init),
            get_count: symbol!(c"cuDeviceGetCount" as GetInt),
            retain: symbol!(c"cuDevicePrimaryCtxRetain" as RetainContext),
            set_current: symbol!(c"cuCtxSetCurrent" as SetContext),
        })
    }

    /// Returns the number of devices.
    pub(super) fn count(&self) -> Result<i32, DriverError> {
        let mut count = 0;
        // SAFETY: the output pointer is valid for writes.
        check("cuDeviceGetCount", unsafe { (self.get_count)(&raw mut count) })?;
        Ok(count)
    }

    /// Retains the device's primary context, which the CUDA runtime also uses, and makes it current in this thread. The
    /// context is never released.
    pub(super) fn make_context(&self, device: i32) -> Result<(), DriverError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the output pointer is valid for writes, and the driver rejects invalid device numbers.
        check("cuDevicePrimaryCtxRetain", unsafe { (self.retain)(&raw mut context, device) })?;
        // SAFETY: the driver has just returned the context, and it is never released.
        check("cuCtxSetCurrent", unsafe { (self.set_current)(context) })
    }
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // ld.so's message starts with the library's name.
        if self.message.starts_with(self.function) {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.function, self.message)
        }
    }
}

impl std::error::Error for DriverError {}

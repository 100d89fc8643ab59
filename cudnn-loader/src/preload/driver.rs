//! The functions of NVIDIA's driver that create a context. The driver is loaded at run time; nothing is linked.

use std::ffi::{CStr, c_int, c_uint, c_void};

use cudnn_os::libraries;

use super::critical::{CriticalSection, with_critical_openings};
use crate::dl::{self, Handle};
use crate::driver::{self, GetInt};
use crate::names::DRIVER;

/// The device of this thread's context. The first device if the thread has no context, as in the CUDA runtime, or if
/// the process has not loaded the driver.
pub(super) fn current() -> i32 {
    if !driver::is_loaded() {
        return 0;
    }
    // This does not initialise the driver: without an initialised driver there is no current device.
    open().ok().and_then(|driver| driver::current_device(&driver)).unwrap_or(0)
}

// The driver's functions, as cuda.h declares them.
type Init = unsafe extern "C" fn(c_uint) -> c_uint;
type RetainContext = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint;
type SetContext = unsafe extern "C" fn(*mut c_void) -> c_uint;

/// The driver's library.
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
    /// The function that failed: `cuInit`; or the driver's library (`libcuda.so.1`), if that cannot be loaded.
    pub function: &'static str,
    /// The function's CUresult, or the message of the system's loader.
    pub message: String,
}

fn check(function: &'static str, result: c_uint) -> Result<(), DriverError> {
    if result == 0 { Ok(()) } else { Err(DriverError { function, message: format!("CUresult {result}") }) }
}

/// Never unloaded, like the rest of CUDA.
fn open() -> Result<Handle, DriverError> {
    // On Windows its installer puts it into the system's directory, and it is taken from nowhere else.
    let path = libraries::system_dir().map_or_else(|| DRIVER.into(), |dir| dir.join(DRIVER));
    dl::open(&path).map_err(|failed| DriverError { function: DRIVER, message: failed.message })
}

impl Driver {
    /// Loads and initialises the driver (`cuInit`).
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

    /// The number of devices.
    pub(super) fn count(&self) -> Result<i32, DriverError> {
        let mut count = 0;
        // SAFETY: the answer has room.
        check("cuDeviceGetCount", unsafe { (self.get_count)(&raw mut count) })?;
        Ok(count)
    }

    /// Creates the device's primary context, which the CUDA runtime uses too, and makes it current in this thread. It
    /// is never released.
    pub(super) fn make_context(&self, device: i32) -> Result<(), DriverError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the answer has room; the driver refuses a number that is no device.
        check("cuDevicePrimaryCtxRetain", unsafe { (self.retain)(&raw mut context, device) })?;
        // SAFETY: the driver has just returned the context, and it is never released.
        check("cuCtxSetCurrent", unsafe { (self.set_current)(context) })
    }
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // ld.so's message begins with the library's name.
        if self.message.starts_with(self.function) {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.function, self.message)
        }
    }
}

impl std::error::Error for DriverError {}

//! Calls the functions of NVIDIA's driver that create a context. The driver is loaded at run time rather than linked.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use cudnn_os::libraries;
use cudnn_sys::types::cudnnStatus_t;

use super::report::PreloadOutcome;
use crate::dl::{self, Handle};
use crate::driver::{self, GetInt, function};
use crate::names::DRIVER;

// Driver functions, as declared in cuda.h.
type Init = unsafe extern "C" fn(c_uint) -> c_uint;
type RetainContext = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint;

/// The initialized driver. It is never unloaded, like the other CUDA libraries.
#[derive(Clone, Copy)]
pub(super) struct Driver(Handle);

/// Returns the device of this thread's context. Defaults to the first device, as in the CUDA runtime, without a context
/// or a loaded driver.
pub(super) fn current_device() -> i32 {
    // This does not initialize the driver: an uninitialized driver reports no current device.
    driver::loaded().and_then(|driver| driver::current_device(&driver)).unwrap_or(0)
}

fn open() -> Result<Handle, PreloadOutcome> {
    // On Windows, the driver is installed in the system directory and loaded only from there.
    let path = libraries::system_dir().map_or_else(|| DRIVER.into(), |dir| dir.join(DRIVER));
    dl::open(&path).map_err(|failed| failure(failed.message))
}

fn failure(reason: String) -> PreloadOutcome {
    PreloadOutcome::Failed { status: cudnnStatus_t::CUDNN_STATUS_NOT_INITIALIZED, reason }
}

/// Converts the result of a driver function, which may be missing.
fn check(function: &str, result: Option<c_uint>) -> Result<(), PreloadOutcome> {
    match result {
        Some(0) => Ok(()),
        Some(error) => Err(failure(format!("{function}: CUresult {error}"))),
        None => Err(failure(format!("{DRIVER}: does not export {function}"))),
    }
}

impl Driver {
    /// Loads and initializes the driver.
    pub(super) fn start() -> Result<Self, PreloadOutcome> {
        let driver = open()?;
        // SAFETY: the flags must be 0.
        check("cuInit", function!(driver, c"cuInit" as Init).map(|init| unsafe { init(0) }))?;
        Ok(Driver(driver))
    }

    /// Returns the number of devices.
    pub(super) fn count(self) -> Result<i32, PreloadOutcome> {
        let mut count = 0;
        let get_count = function!(self.0, c"cuDeviceGetCount" as GetInt);
        // SAFETY: the output pointer is valid for writes.
        check("cuDeviceGetCount", get_count.map(|get_count| unsafe { get_count(&raw mut count) }))?;
        Ok(count)
    }

    /// Creates the device's primary context, which the CUDA runtime also uses. It is never released.
    pub(super) fn create_context(self, device: i32) -> Result<(), PreloadOutcome> {
        let mut context = null_mut();
        let retain = function!(self.0, c"cuDevicePrimaryCtxRetain" as RetainContext);
        // SAFETY: the output pointer is valid for writes, and the driver rejects invalid device numbers.
        check("cuDevicePrimaryCtxRetain", retain.map(|retain| unsafe { retain(&raw mut context, device) }))
    }
}

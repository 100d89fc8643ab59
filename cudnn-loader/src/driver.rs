//! Checks whether the process has loaded NVIDIA's driver and which device the calling thread uses, without loading or
//! initializing anything.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::dl::Handle;
use crate::dl::objects::LoadedObjects;
use crate::names::DRIVER;

// Driver functions, as declared in cuda.h.
type GetContext = unsafe extern "C" fn(*mut *mut c_void) -> c_uint;
pub(crate) type GetInt = unsafe extern "C" fn(*mut c_int) -> c_uint;

/// Looks up a driver function, if this driver exports it.
macro_rules! function {
    ($driver:expr, $name:literal as $type:ty) => {
        $driver.symbol($name).map(|address| {
            // SAFETY: the driver's function of this name has this type.
            unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(address) }
        })
    };
}
pub(crate) use function;

/// Returns the driver's library, if the process has loaded it. It is never unloaded. Does not wait for a thread that
/// loads a library, because that thread may wait for this one.
pub(crate) fn loaded() -> Option<Handle> {
    LoadedObjects::snapshot().first(DRIVER).map(|driver| driver.handle)
}

/// Returns the device of this thread's context, or `None` without a context.
pub(crate) fn current_device(driver: &Handle) -> Option<c_int> {
    let (mut context, mut device) = (null_mut(), 0);
    let get_context = function!(driver, c"cuCtxGetCurrent" as GetContext)?;
    // SAFETY: the output pointer is valid for writes.
    if unsafe { get_context(&raw mut context) } != 0 || context.is_null() {
        return None;
    }
    let get_device = function!(driver, c"cuCtxGetDevice" as GetInt)?;
    // SAFETY: the output pointer is valid for writes, and a context is current.
    (unsafe { get_device(&raw mut device) } == 0).then_some(device)
}

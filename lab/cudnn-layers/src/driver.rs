//! Wraps driver functions for several layers.

use std::ffi::c_int;

use cudnn_os::libraries::Library;

const DRIVER: &str = cudnn_os::windows_or!("nvcuda.dll", "libcuda.so.1");

/// A `CUresult`.
pub(crate) type DriverStatus = c_int;

pub(crate) const SUCCESS: DriverStatus = 0;

/// Returns the driver's library if it is loaded. It is never unloaded, because it is in use.
pub(crate) fn library() -> Option<Library> {
    Library::loaded(DRIVER.as_ref())
}

/// Returns the free memory of the current device in bytes.
pub(crate) fn free_memory() -> Option<u64> {
    let (mut free, mut total) = (0_usize, 0_usize);
    // SAFETY: the driver's function has this signature since CUDA 3.2; the pointers are valid for writes.
    let status = unsafe {
        let info: unsafe extern "C" fn(*mut usize, *mut usize) -> DriverStatus =
            library()?.function(c"cuMemGetInfo_v2")?;
        info(&raw mut free, &raw mut total)
    };
    (status == SUCCESS).then_some(free as u64)
}

//! Wraps the functions of NVIDIA's driver that several layers call.

use std::ffi::{c_int, c_void};

use cudnn_os::libraries::Library;

/// The driver's library.
const DRIVER: &str = cudnn_os::windows_or!("nvcuda.dll", "libcuda.so.1");

/// A `CUresult`.
pub(crate) type DriverStatus = c_int;

pub(crate) const SUCCESS: DriverStatus = 0;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURING: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// Returns the driver's library if the process has loaded it. It is never unloaded, because it is in use.
pub(crate) fn library() -> Option<Library> {
    Library::loaded(DRIVER.as_ref())
}

/// Returns the free memory of this thread's current device, in bytes.
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

/// The functions about captured streams.
pub(crate) struct StreamCapture {
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> DriverStatus,
    exchange_mode: unsafe extern "C" fn(*mut c_int) -> DriverStatus,
}

impl StreamCapture {
    /// Returns `None` if a function is missing from the driver.
    pub(crate) fn new(driver: &Library) -> Option<Self> {
        // SAFETY: the driver's functions with these names have these signatures since CUDA 10.1.
        unsafe {
            Some(StreamCapture {
                is_capturing: driver.function(c"cuStreamIsCapturing")?,
                exchange_mode: driver.function(c"cuThreadExchangeStreamCaptureMode")?,
            })
        }
    }

    /// Runs driver calls in a mode that neither fails during the capture of a CUDA graph nor invalidates a capture in any
    /// thread.
    pub(crate) fn relaxed<T>(&self, calls: impl FnOnce() -> T) -> T {
        let mut mode = RELAXED;
        // SAFETY: the pointer is valid for writes.
        let was_exchanged = unsafe { (self.exchange_mode)(&raw mut mode) } == SUCCESS;
        let result = calls();
        if was_exchanged {
            // SAFETY: as above. This restores the program's mode.
            unsafe { (self.exchange_mode)(&raw mut mode) };
        }
        result
    }

    /// Returns whether work on the stream is, or may be, captured into a graph.
    pub(crate) fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = NOT_CAPTURING;
        // SAFETY: the stream belongs to a handle that the program is using, and the pointer is valid for writes.
        let asked = unsafe { (self.is_capturing)(stream, &raw mut status) };
        asked != SUCCESS || status != NOT_CAPTURING
    }
}

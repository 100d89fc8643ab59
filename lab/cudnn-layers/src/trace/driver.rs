//! Wraps the functions of NVIDIA's driver that measure time on a device.
//!
//! All calls run in the relaxed mode of [`StreamCapture`].

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;

use crate::driver::{DriverStatus, SUCCESS, StreamCapture, library};

pub(super) type CudaEvent = *mut c_void;
const NOT_READY: DriverStatus = 600;

/// The driver library that the process has loaded.
pub(super) struct EventFunctions {
    context: unsafe extern "C" fn(*mut *mut c_void) -> DriverStatus,
    /// Available since CUDA 12.
    context_id: unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> DriverStatus,
    create: unsafe extern "C" fn(*mut CudaEvent, c_uint) -> DriverStatus,
    record: unsafe extern "C" fn(CudaEvent, *mut c_void) -> DriverStatus,
    query: unsafe extern "C" fn(CudaEvent) -> DriverStatus,
    elapsed: unsafe extern "C" fn(*mut f32, CudaEvent, CudaEvent) -> DriverStatus,
    pub(super) capture: StreamCapture,
}

/// The state of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventState {
    Happened,
    Expected,
    Lost,
}

impl EventFunctions {
    /// Returns `None` if no driver is loaded, or if it is older than CUDA 12, without `cuCtxGetId`.
    pub(super) fn loaded() -> Option<EventFunctions> {
        let library = library()?;
        let capture = StreamCapture::new(&library)?;
        // SAFETY: the driver's functions with these names have these signatures since CUDA 12.
        unsafe {
            Some(EventFunctions {
                context: library.function(c"cuCtxGetCurrent")?,
                context_id: library.function(c"cuCtxGetId")?,
                create: library.function(c"cuEventCreate")?,
                record: library.function(c"cuEventRecord")?,
                query: library.function(c"cuEventQuery")?,
                elapsed: library.function(c"cuEventElapsedTime")?,
                capture,
            })
        }
    }

    /// Returns the unique ID of this thread's current context. IDs are never reused.
    pub(super) fn context(&self) -> Option<u64> {
        let mut context = null_mut();
        // SAFETY: the pointer is valid for writes.
        if unsafe { (self.context)(&raw mut context) } != SUCCESS || context.is_null() {
            return None;
        }
        let mut id = 0;
        // SAFETY: as above.
        let status = unsafe { (self.context_id)(context, &raw mut id) };
        (status == SUCCESS).then_some(id)
    }

    pub(super) fn create(&self) -> Option<CudaEvent> {
        let mut event = null_mut();
        // SAFETY: the pointer is valid for writes.
        (unsafe { (self.create)(&raw mut event, 0) } == SUCCESS).then_some(event)
    }

    /// Records an event that belongs to this thread's context.
    pub(super) fn record(&self, event: CudaEvent, stream: *mut c_void) -> bool {
        // SAFETY: the context keeps the event alive, and the stream belongs to a handle that the program is using.
        unsafe { (self.record)(event, stream) == SUCCESS }
    }

    /// Queries an event that belongs to this thread's context.
    pub(super) fn state(&self, event: CudaEvent) -> EventState {
        // SAFETY: the context keeps the event alive.
        match unsafe { (self.query)(event) } {
            SUCCESS => EventState::Happened,
            NOT_READY => EventState::Expected,
            _ => EventState::Lost,
        }
    }

    /// Returns the time between two completed events, in nanoseconds.
    pub(super) fn elapsed(&self, from: CudaEvent, to: CudaEvent) -> Option<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: as above, and the pointer is valid for writes.
        let measured = unsafe { (self.elapsed)(&raw mut milliseconds, from, to) } == SUCCESS;
        (measured && milliseconds.is_finite()).then(|| f64::from(milliseconds) * 1e6)
    }
}

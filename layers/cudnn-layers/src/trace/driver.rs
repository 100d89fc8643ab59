//! Wraps the functions of NVIDIA's driver that measure time on a device.
//!
//! All calls use a mode that neither fails during the capture of a CUDA graph nor invalidates a capture in any thread.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;

use cudnn_os::libraries::Library;

/// The driver's library.
const DRIVER: &str = cudnn_os::windows_or!("nvcuda.dll", "libcuda.so.1");

pub(super) type Event = *mut c_void;
type Status = c_int;

const SUCCESS: Status = 0;
const NOT_READY: Status = 600;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
const NOT_CAPTURING: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// The driver library that the process has loaded.
pub(super) struct Driver {
    context: unsafe extern "C" fn(*mut *mut c_void) -> Status,
    /// Available since CUDA 12.
    context_id: unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> Status,
    create: unsafe extern "C" fn(*mut Event, c_uint) -> Status,
    record: unsafe extern "C" fn(Event, *mut c_void) -> Status,
    query: unsafe extern "C" fn(Event) -> Status,
    elapsed: unsafe extern "C" fn(*mut f32, Event, Event) -> Status,
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> Status,
    exchange_mode: unsafe extern "C" fn(*mut c_int) -> Status,
}

/// The state of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Happened,
    Expected,
    Lost,
}

impl Driver {
    /// Returns `None` if no driver is loaded, or if it is older than CUDA 12 and lacks `cuCtxGetId`.
    pub(super) fn loaded() -> Option<Driver> {
        let library = Library::loaded(DRIVER.as_ref())?;
        // SAFETY: the driver's functions with these names have these signatures since CUDA 12.
        unsafe {
            Some(Driver {
                context: library.function(c"cuCtxGetCurrent")?,
                context_id: library.function(c"cuCtxGetId")?,
                create: library.function(c"cuEventCreate")?,
                record: library.function(c"cuEventRecord")?,
                query: library.function(c"cuEventQuery")?,
                elapsed: library.function(c"cuEventElapsedTime")?,
                is_capturing: library.function(c"cuStreamIsCapturing")?,
                exchange_mode: library.function(c"cuThreadExchangeStreamCaptureMode")?,
            })
        }
    }

    /// Runs driver calls in relaxed capture mode.
    pub(super) fn relaxed<T>(&self, calls: impl FnOnce() -> T) -> T {
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

    /// Returns whether work on the stream is, or may be, captured into a graph.
    pub(super) fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = NOT_CAPTURING;
        // SAFETY: the stream belongs to a handle that the program is using, and the pointer is valid for writes.
        let asked = unsafe { (self.is_capturing)(stream, &raw mut status) };
        asked != SUCCESS || status != NOT_CAPTURING
    }

    pub(super) fn create(&self) -> Option<Event> {
        let mut event = null_mut();
        // SAFETY: the pointer is valid for writes.
        (unsafe { (self.create)(&raw mut event, 0) } == SUCCESS).then_some(event)
    }

    /// Records an event that belongs to this thread's context.
    pub(super) fn record(&self, event: Event, stream: *mut c_void) -> bool {
        // SAFETY: the context keeps the event alive, and the stream belongs to a handle that the program is using.
        unsafe { (self.record)(event, stream) == SUCCESS }
    }

    /// Queries an event that belongs to this thread's context.
    pub(super) fn state(&self, event: Event) -> State {
        // SAFETY: the context keeps the event alive.
        match unsafe { (self.query)(event) } {
            SUCCESS => State::Happened,
            NOT_READY => State::Expected,
            _ => State::Lost,
        }
    }

    /// Returns the time between two completed events, in nanoseconds.
    pub(super) fn elapsed(&self, from: Event, to: Event) -> Option<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: as above, and the pointer is valid for writes.
        let measured = unsafe { (self.elapsed)(&raw mut milliseconds, from, to) } == SUCCESS;
        (measured && milliseconds.is_finite()).then(|| f64::from(milliseconds) * 1e6)
    }
}

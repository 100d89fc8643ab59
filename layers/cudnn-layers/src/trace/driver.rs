//! The functions of NVIDIA's driver that time work on a device. It calls them, and knows nothing of cuDNN and of
//! records.
//!
//! Each call is made in the mode in which it neither fails nor spoils a capture of a CUDA graph in any thread.

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

/// The driver that the process has loaded.
pub(super) struct Driver {
    context: unsafe extern "C" fn(*mut *mut c_void) -> Status,
    /// Since CUDA 12.
    context_id: unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> Status,
    create: unsafe extern "C" fn(*mut Event, c_uint) -> Status,
    record: unsafe extern "C" fn(Event, *mut c_void) -> Status,
    query: unsafe extern "C" fn(Event) -> Status,
    elapsed: unsafe extern "C" fn(*mut f32, Event, Event) -> Status,
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> Status,
    exchange_mode: unsafe extern "C" fn(*mut c_int) -> Status,
}

/// Whether an event has happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Happened,
    Expected,
    Lost,
}

impl Driver {
    /// `None` if the process has loaded no driver, or one without `cuCtxGetId`, which is older than CUDA 12.
    pub(super) fn loaded() -> Option<Driver> {
        let library = Library::loaded(DRIVER.as_ref())?;
        // SAFETY: the driver's functions of these names have these signatures since CUDA 12.
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

    /// Makes calls that do not concern captures.
    pub(super) fn relaxed<T>(&self, calls: impl FnOnce() -> T) -> T {
        let mut mode = RELAXED;
        // SAFETY: the driver's function, whose answer has room.
        let was_exchanged = unsafe { (self.exchange_mode)(&raw mut mode) } == SUCCESS;
        let result = calls();
        if was_exchanged {
            // SAFETY: as above; this restores the program's mode.
            unsafe { (self.exchange_mode)(&raw mut mode) };
        }
        result
    }

    /// A number for the context of this thread, which no later context has.
    pub(super) fn context(&self) -> Option<u64> {
        let mut context = null_mut();
        // SAFETY: the answer has room.
        if unsafe { (self.context)(&raw mut context) } != SUCCESS || context.is_null() {
            return None;
        }
        let mut id = 0;
        // SAFETY: as above.
        let status = unsafe { (self.context_id)(context, &raw mut id) };
        (status == SUCCESS).then_some(id)
    }

    /// Whether work on the stream is captured into a graph, or may be.
    pub(super) fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = NOT_CAPTURING;
        // SAFETY: the stream of a handle that the program uses now; the answer has room.
        let asked = unsafe { (self.is_capturing)(stream, &raw mut status) };
        asked != SUCCESS || status != NOT_CAPTURING
    }

    pub(super) fn create(&self) -> Option<Event> {
        let mut event = null_mut();
        // SAFETY: the answer has room.
        (unsafe { (self.create)(&raw mut event, 0) } == SUCCESS).then_some(event)
    }

    /// `event` is of this thread's context.
    pub(super) fn record(&self, event: Event, stream: *mut c_void) -> bool {
        // SAFETY: the event exists while its context does, and the stream is that of a handle that the program uses
        // now.
        unsafe { (self.record)(event, stream) == SUCCESS }
    }

    /// `event` is of this thread's context.
    pub(super) fn state(&self, event: Event) -> State {
        // SAFETY: the event exists while its context does.
        match unsafe { (self.query)(event) } {
            SUCCESS => State::Happened,
            NOT_READY => State::Expected,
            _ => State::Lost,
        }
    }

    /// The time between two events that have happened, in nanoseconds.
    pub(super) fn elapsed(&self, from: Event, to: Event) -> Option<f64> {
        let mut milliseconds = 0.0;
        // SAFETY: as above; the answer has room.
        let measured = unsafe { (self.elapsed)(&raw mut milliseconds, from, to) } == SUCCESS;
        (measured && milliseconds.is_finite()).then(|| f64::from(milliseconds) * 1e6)
    }
}

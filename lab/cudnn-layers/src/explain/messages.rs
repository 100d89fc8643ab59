//! Receives cuDNN's messages about the calls of this layer, and hides them from the program's callback.
//!
//! cuDNN has one callback for the whole process. While this layer tries engines, it installs its own callback, which
//! stores the messages of the trying thread and passes other messages to the program's callback.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudnn_sys::types::{cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t};

use crate::cudnn::Cudnn;
use crate::lock::Lock;
use crate::{program_memory, thread};

/// The mask for fatal messages, errors and warnings. cuDNN reports unsupported graphs as warnings.
const MASK: c_uint = 0b111;
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Copy)]
pub(super) struct Callback {
    pub(super) mask: c_uint,
    pub(super) data: *mut c_void,
    pub(super) function: cudnnCallback_t,
}

// SAFETY: the program passes the data to cuDNN, which uses it in any thread.
unsafe impl Send for Callback {}

const NONE: Callback = Callback { mask: 0, data: std::ptr::null_mut(), function: None };

/// Whether a thread is receiving messages or preparing to do so.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
const TURN_TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(1);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// Whether a thread receives messages. New callbacks of the program are then stored and not passed to cuDNN.
static IS_RECEIVING: AtomicBool = AtomicBool::new(false);
/// The program's callback while this layer's callback is installed.
pub(super) static PROGRAM: Lock<StoredCallback> = Lock::keeping(StoredCallback::NONE);

pub(super) struct StoredCallback {
    callback: Callback,
    /// The number of callbacks that the program has set since a thread receives messages.
    changes: u64,
}

impl StoredCallback {
    const NONE: StoredCallback = StoredCallback { callback: NONE, changes: 0 };
}

impl Default for StoredCallback {
    fn default() -> Self {
        StoredCallback::NONE
    }
}

/// Whether the program has called `cudnnSetCallback`, perhaps without a function.
static PROGRAM_HAS_SET: AtomicBool = AtomicBool::new(false);
/// The number of the thread that receives messages, or 0.
static RECEIVER: AtomicU64 = AtomicU64::new(0);
pub(super) static RECEIVED: Lock<String> = Lock::keeping(String::new());

/// Receives the messages of this thread's calls.
pub(super) struct Messages(());

impl Messages {
    pub(super) fn take(&self) -> String {
        RECEIVED.lock().map(|mut received| std::mem::take(&mut *received)).unwrap_or_default()
    }
}

/// Runs a closure that can receive cuDNN's messages about its calls. Returns `None` if another thread receives messages
/// for too long, or if the environment selects a log, because cuDNN would then close the log file.
pub(super) fn receive<T>(cudnn: &Cudnn, work: impl FnOnce(&Messages) -> T) -> Option<T> {
    let start = Instant::now();
    while IS_TAKEN.swap(true, Ordering::Acquire) {
        if start.elapsed() > TURN_TIMEOUT {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
    let _turn = Turn;
    // The program's callback must not receive messages about exchanging the callback.
    RECEIVER.store(thread::number(), Ordering::Relaxed);
    drop(Messages(()).take());
    let has_callback = !go_to_a_log() && install(cudnn);
    let result = work(&Messages(()));
    if has_callback {
        restore(cudnn);
    }
    Some(result)
}

/// The turn to receive messages. Dropping it also works if an exception of the program's callback leaves cuDNN.
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        RECEIVER.store(0, Ordering::Relaxed);
        IS_RECEIVING.store(false, Ordering::SeqCst);
        IS_TAKEN.store(false, Ordering::Release);
    }
}

pub(super) fn go_to_a_log() -> bool {
    std::env::var_os("CUDNN_LOGDEST_DBG").is_some_and(|value| !value.is_empty() && value != "NULL")
}

fn install(cudnn: &Cudnn) -> bool {
    let (Some(get), Some(set)) = (cudnn.cudnnGetCallback(), cudnn.cudnnSetCallback()) else { return false };
    let Some(mut stored) = PROGRAM.lock() else { return false };
    stored.changes = 0;
    drop(stored);
    // From here on, other threads store callbacks.
    IS_RECEIVING.store(true, Ordering::SeqCst);
    if !IS_INSTALLED.load(Ordering::SeqCst) {
        let mut program = NONE;
        // SAFETY: the pointers are valid for writes.
        let status = unsafe { get(&raw mut program.mask, &raw mut program.data, &raw mut program.function) };
        let stored = PROGRAM.lock().filter(|_| status == cudnnStatus_t::CUDNN_STATUS_SUCCESS);
        let Some(mut stored) = stored else {
            IS_RECEIVING.store(false, Ordering::SeqCst);
            return false;
        };
        // The program's call may have been in progress when another thread restored the callback.
        if stored.changes == 0 && !is_own(program.function) {
            stored.callback = program;
        }
    }
    IS_INSTALLED.store(true, Ordering::SeqCst);
    // SAFETY: the function accepts cuDNN's arguments in any thread, and uses no data.
    let status = unsafe { set(program().mask | MASK, std::ptr::null_mut(), RECEIVE) };
    if status != cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        IS_INSTALLED.store(false, Ordering::SeqCst);
        IS_RECEIVING.store(false, Ordering::SeqCst);
    }
    status == cudnnStatus_t::CUDNN_STATUS_SUCCESS
}

fn is_own(function: cudnnCallback_t) -> bool {
    function.zip(RECEIVE).is_some_and(|(function, own)| std::ptr::fn_addr_eq(function, own))
}

fn program() -> Callback {
    PROGRAM.lock().map_or(NONE, |stored| stored.callback)
}

/// Restores the program's callback. If the program has never set one, this layer's callback stays installed for errors,
/// because cuDNN would print them to stderr.
fn restore(cudnn: &Cudnn) {
    let Some(set) = cudnn.cudnnSetCallback() else { return };
    for _ in 0..MAX_REPETITIONS {
        let Some(stored) = PROGRAM.lock().map(|stored| (stored.callback, stored.changes)) else { return };
        let (program, changes) = stored;
        let has_callback = program.function.is_some() || PROGRAM_HAS_SET.load(Ordering::SeqCst);
        let installed = if has_callback { program } else { Callback { function: RECEIVE, ..program } };
        // SAFETY: the program has set this callback, or the function uses no data.
        let _ = unsafe { set(installed.mask, installed.data, installed.function) };
        let Some(stored) = PROGRAM.lock() else { return };
        if stored.changes == changes {
            IS_INSTALLED.store(!has_callback, Ordering::SeqCst);
            // While the lock is held, no callback can be stored too late.
            IS_RECEIVING.store(false, Ordering::SeqCst);
            return;
        }
    }
}

/// A program's callback may set another callback for each message.
const MAX_REPETITIONS: usize = 16;

/// Stores the program's new callback, or returns `false` if the call must be passed to cuDNN.
pub(super) fn store_if_receiving(callback: Callback) -> bool {
    PROGRAM_HAS_SET.store(true, Ordering::SeqCst);
    let Some(mut stored) = PROGRAM.lock() else { return false };
    let is_receiving = IS_RECEIVING.load(Ordering::SeqCst);
    if is_receiving {
        stored.callback = callback;
        stored.changes += 1;
    } else {
        IS_INSTALLED.store(false, Ordering::SeqCst);
    }
    is_receiving
}

/// Completes a call of `cudnnGetCallback` by replacing this layer's callback with the program's.
///
/// # Safety
/// The pointers are null or valid for writes.
#[expect(clippy::disallowed_methods, reason = "cuDNN has written to these pointers")]
pub(super) unsafe fn replace_with_program_callback(
    mask: *mut c_uint,
    data: *mut *mut c_void,
    function: *mut cudnnCallback_t,
) {
    // SAFETY: guaranteed by the caller.
    let pointers = unsafe { (mask.as_mut(), data.as_mut(), function.as_mut()) };
    if !pointers.2.as_ref().is_some_and(|function| is_own(**function)) {
        return;
    }
    let program = program();
    if let Some(mask) = pointers.0 {
        *mask = program.mask;
    }
    if let Some(data) = pointers.1 {
        *data = program.data;
    }
    if let Some(function) = pointers.2 {
        *function = program.function;
    }
}

/// Forked children have no receiving thread. If this layer's callback is installed, it passes all messages on.
pub(super) fn in_child() {
    RECEIVER.store(0, Ordering::Relaxed);
    IS_RECEIVING.store(false, Ordering::SeqCst);
    IS_TAKEN.store(false, Ordering::SeqCst);
}

/// The function type in `cudnnCallback_t`. [`RECEIVE`] verifies that it matches cuDNN's declaration.
macro_rules! receive {
    ($abi:literal) => { unsafe extern $abi fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char) };
}

// SAFETY: the types differ only in unwinding, and exceptions may pass through cuDNN because it is C++.
const RECEIVE: cudnnCallback_t = Some(unsafe { std::mem::transmute::<receive!("C-unwind"), receive!("C")>(received) });

unsafe extern "C-unwind" fn received(
    severity: cudnnSeverity_t,
    _: *mut c_void,
    debug: *const cudnnDebug_t,
    message: *const c_char,
) {
    if RECEIVER.load(Ordering::Relaxed) == thread::number() {
        // SAFETY: cuDNN's message consists of NUL-terminated lines and a final NUL, and lives as long as this call.
        let lines: Vec<_> = unsafe { program_memory::lines(message) }.map(CStr::to_string_lossy).collect();
        if let Some(mut text) = RECEIVED.lock() {
            for line in &lines {
                if text.len() < MAX_BYTES {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        return;
    }
    let Callback { mask, data, function: Some(function) } = program() else { return };
    // cuDNN always reports fatal messages and errors.
    if (mask | 0b11).checked_shr(severity.0).is_some_and(|mask| mask & 1 == 1) {
        // SAFETY: it is the same function; the new type only permits unwinding.
        let function = unsafe { std::mem::transmute::<receive!("C"), receive!("C-unwind")>(function) };
        // SAFETY: the program has set the function and the data together; the other arguments are cuDNN's.
        unsafe { function(severity, data, debug, message) }
    }
}

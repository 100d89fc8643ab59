//! Manages the callback that the program has set and queues the loader's entries for it.
//!
//! cuDNN never receives the program's function. It receives a function of this file instead, before the first call of
//! any thread reaches it. When cuDNN receives a callback for the first time, it closes the log file. If other threads
//! are writing to the file at that time, the heap is corrupted. Later changes replace function and data together.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::{cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t};

use super::entry::{ERROR_BIT, INFO_BIT, WARNING_BIT};
use crate::resolve::libraries::graph_functions;
use crate::sync::once::RaceOnce;
use crate::thread::reentrancy::ReentrancyGuard;

/// The function type in `cudnnCallback_t`. [`RECEIVE`] verifies that it matches cuDNN's declaration.
macro_rules! receive {
    ($abi:literal) => { unsafe extern $abi fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char) };
}
type Receive = receive!("C");
/// The same type, for functions that may throw exceptions.
type ReceiveUnwind = receive!("C-unwind");

/// Fatal entries cannot be masked.
const FATAL_BIT: c_uint = 1;

/// The arguments of `cudnnSetCallback`.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(super) mask: c_uint,
    data: *mut c_void,
    function: cudnnCallback_t,
}

impl Callback {
    /// Creates a callback. As with cuDNN, the mask always includes errors, and each severity includes the more severe ones.
    pub(crate) fn new(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> Self {
        let mask = match mask {
            _ if mask & INFO_BIT != 0 => ERROR_BIT | WARNING_BIT | INFO_BIT,
            _ if mask & WARNING_BIT != 0 => ERROR_BIT | WARNING_BIT,
            _ => ERROR_BIT,
        };
        Callback { mask, data, function }
    }

    /// Returns whether a function is set. Without a function, the program only set the mask.
    pub(super) fn has_function(&self) -> bool {
        self.function.is_some()
    }

    fn is(&self, other: &Callback) -> bool {
        (self.mask, self.data, address(self.function)) == (other.mask, other.data, address(other.function))
    }

    /// Calls the function as cuDNN would, if it is set and the mask includes the severity. The function may throw.
    ///
    /// # Safety
    /// `debug` and `message` are as cuDNN passes them: a structure, and NUL-terminated lines followed by a final NUL.
    unsafe fn call(&self, severity: cudnnSeverity_t, debug: *const cudnnDebug_t, message: *const c_char) {
        let Some(function) =
            self.function.filter(|_| (self.mask | FATAL_BIT).checked_shr(severity.0).is_some_and(|mask| mask & 1 == 1))
        else {
            return;
        };
        // SAFETY: it is the same function; the new type only permits unwinding.
        let function = unsafe { std::mem::transmute::<Receive, ReceiveUnwind>(function) };
        // SAFETY: the program set the function and the data together; the caller guarantees the other arguments.
        unsafe { function(severity, self.data, debug, message) }
    }
}

fn address(function: cudnnCallback_t) -> Option<usize> {
    function.map(|function| function as usize)
}

/// A callback that was set at some time, in a list without duplicates. Never freed, because a thread may be about to
/// call it.
struct CallbackNode {
    callback: Callback,
    next: *mut CallbackNode,
}

/// The head of the list.
static CALLBACKS: AtomicPtr<CallbackNode> = AtomicPtr::new(null_mut());
/// The most recently set callback, which receives the loader's entries.
static CURRENT: AtomicPtr<CallbackNode> = AtomicPtr::new(null_mut());
/// The callback that cuDNN was last notified about. It receives cuDNN's entries, including the entry about the call
/// that sets the next callback.
static ACTIVE: AtomicPtr<CallbackNode> = AtomicPtr::new(null_mut());
/// The number of settings so far, and the number of the setting that cuDNN was last notified about.
static SET_COUNT: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicU64 = AtomicU64::new(0);
/// Published after a thread has returned from passing the first callback to cuDNN.
static FIRST_INSTALLED: RaceOnce<()> = RaceOnce::new();

/// Returns the list entry for this callback and adds it if necessary.
fn intern(callback: Callback) -> *mut CallbackNode {
    let mut made: *mut CallbackNode = null_mut();
    loop {
        let first = CALLBACKS.load(Ordering::Acquire);
        let mut each = first;
        // SAFETY: null, or a leaked box that was complete before it was added to the list (Release below).
        while let Some(known) = unsafe { each.as_ref() } {
            if known.callback.is(&callback) {
                if !made.is_null() {
                    // SAFETY: created below and never added to the list.
                    drop(unsafe { Box::from_raw(made) });
                }
                return each;
            }
            each = known.next;
        }
        if made.is_null() {
            made = Box::into_raw(Box::new(CallbackNode { callback, next: first }));
        } else {
            // SAFETY: no other thread can access it before it is in the list.
            unsafe { (*made).next = first };
        }
        if CALLBACKS.compare_exchange(first, made, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return made;
        }
    }
}

/// Returns the most recently set callback.
pub(super) fn current() -> Option<Callback> {
    // SAFETY: null, or a list entry, which is never freed.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }.map(|known| known.callback)
}

/// Sets the callback. [`install`] passes it to cuDNN.
pub(crate) fn set(callback: Callback) {
    CURRENT.store(intern(callback), Ordering::SeqCst);
    SET_COUNT.fetch_add(1, Ordering::SeqCst);
}

/// Notifies a loaded cuDNN of the callback, if necessary. The caller must let exceptions pass, because cuDNN logs the
/// call and the previous callback may throw.
pub(crate) fn install() -> cudnnStatus_t {
    match graph_functions() {
        Some(functions) => install_with(functions.set_callback),
        None => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
    }
}

/// Like [`install`], with the address of cuDNN's `cudnnSetCallback`. Every thread calls this before the first call
/// reaches cuDNN. It waits while another thread installs the first callback, at most one second, as in [`RaceOnce`].
pub(super) fn install_with(set_callback: *mut c_void) -> cudnnStatus_t {
    if is_pending() {
        FIRST_INSTALLED.get_or_init(|| {
            let _ = install_current(set_callback);
        });
    }
    install_current(set_callback)
}

/// Returns whether a first callback still has to be installed. Until then, no call may reach cuDNN.
pub(crate) fn is_pending() -> bool {
    (!CURRENT.load(Ordering::SeqCst).is_null() || observer().is_some()) && FIRST_INSTALLED.get().is_none()
}

/// Waits until another thread has installed the first callback, at most one second. The caller must let exceptions pass.
pub(crate) fn finish_installation() {
    if is_pending() && !IS_INSTALLING.try_with(Cell::get).unwrap_or(true) {
        let _ = install();
    }
}

/// Receives cuDNN's warnings and errors before the program's callback does.
pub(super) type Observer = unsafe fn(*const c_char);

/// Null, or an [`Observer`].
static OBSERVER: AtomicPtr<()> = AtomicPtr::new(null_mut());
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Also passes cuDNN's warnings and errors to this function, whether or not the program sets a callback.
pub(super) fn observe(observer: Observer) {
    if IS_REFUSED.load(Ordering::SeqCst) {
        return;
    }
    if OBSERVER.swap(observer as *mut (), Ordering::SeqCst).is_null() {
        SET_COUNT.fetch_add(1, Ordering::SeqCst);
    }
}

/// Removes the observer before cuDNN gets a callback, and ignores later observers.
pub(super) fn refuse_observers() {
    IS_REFUSED.store(true, Ordering::SeqCst);
    OBSERVER.store(null_mut(), Ordering::SeqCst);
}

fn observer() -> Option<Observer> {
    let observer = OBSERVER.load(Ordering::SeqCst);
    // SAFETY: `observe` stored a function of this type.
    (!observer.is_null()).then(|| unsafe { std::mem::transmute::<*mut (), Observer>(observer) })
}

/// A program's callback may set a callback for each message, including those about this file's calls.
const MAX_REPETITIONS: usize = 16;

thread_local! {
    /// This thread is passing a callback to cuDNN.
    static IS_INSTALLING: Cell<bool> = const { Cell::new(false) };
}

/// No callback, which is cuDNN's initial state.
const NO_CALLBACK: Callback = Callback { mask: 0, data: null_mut(), function: None };

fn install_current(set_callback: *mut c_void) -> cudnnStatus_t {
    let mut status = cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    // The program's callback may set a callback when cuDNN logs the call below. The outer call then repeats it.
    let Some(_guard) = ReentrancyGuard::enter(&IS_INSTALLING) else { return status };
    let mut has_installed = false;
    let mut repetitions = 0;
    loop {
        let setting = SET_COUNT.load(Ordering::SeqCst);
        // After this thread has installed a callback, check again: another thread may have installed a newer one in
        // between.
        if !has_installed && INSTALLED.load(Ordering::SeqCst) == setting {
            return status;
        }
        let current = CURRENT.load(Ordering::SeqCst);
        let is_observed = observer().is_some();
        // SAFETY: null, or a list entry, which is never freed.
        let callback = match unsafe { current.as_ref() } {
            Some(CallbackNode { callback, .. }) => *callback,
            None if is_observed => NO_CALLBACK,
            None => return status,
        };
        // A program that sets a mask without a function expects entries at the destination that the environment
        // configures.
        let is_observed = is_observed && (callback.has_function() || current.is_null());
        let mask = if is_observed { callback.mask | WARNING_BIT | ERROR_BIT } else { callback.mask };
        let function = if is_observed { RECEIVE } else { callback.function.and(RECEIVE) };
        // SAFETY: the address belongs to cuDNN's function of this name.
        let set_callback = unsafe { std::mem::transmute::<*mut c_void, unwinding::cudnnSetCallback>(set_callback) };
        // SAFETY: the function accepts cuDNN's arguments and ignores the data pointer.
        status = unsafe { set_callback(mask, callback.data, function) };
        has_installed = true;
        if status.is_success() {
            ACTIVE.store(current, Ordering::SeqCst);
            INSTALLED.store(setting, Ordering::SeqCst);
        }
        repetitions += 1;
        if SET_COUNT.load(Ordering::SeqCst) == setting || repetitions >= MAX_REPETITIONS {
            return status;
        }
    }
}

// SAFETY: the types differ only in unwinding, and exceptions may pass through cuDNN because it is C++.
const RECEIVE: cudnnCallback_t = Some(unsafe { std::mem::transmute::<ReceiveUnwind, Receive>(receive) });

/// The function that is registered with cuDNN. Passes each entry to the program's callback.
unsafe extern "C-unwind" fn receive(
    severity: cudnnSeverity_t,
    _: *mut c_void,
    debug: *const cudnnDebug_t,
    message: *const c_char,
) {
    if let Some(observe) = observer() {
        // SAFETY: cuDNN's message lives as long as this call.
        unsafe { observe(message) };
    }
    if let Some(callback) = active() {
        // SAFETY: cuDNN's arguments live as long as this call.
        unsafe { callback.call(severity, debug, message) };
    }
}

/// Returns the callback for cuDNN's entries. cuDNN may log before the thread that set the first callback has recorded
/// it.
fn active() -> Option<Callback> {
    // SAFETY: null, or a list entry, which is never freed.
    unsafe { ACTIVE.load(Ordering::SeqCst).as_ref() }.map(|known| known.callback).or_else(current)
}

/// Returns the program's mask and function, if `function` is the loader's registered function.
pub(crate) fn program_callback(function: cudnnCallback_t) -> Option<(c_uint, cudnnCallback_t)> {
    let callback = || active().unwrap_or(NO_CALLBACK);
    (address(function) == address(RECEIVE)).then(|| (callback().mask, callback().function))
}

/// An entry for the callback.
pub(super) struct Message {
    pub(super) severity: cudnnSeverity_t,
    pub(super) debug: cudnnDebug_t,
    /// NUL-terminated lines, followed by a final NUL.
    pub(super) text: Vec<u8>,
}

/// More entries than a single call produces.
const MAX_QUEUED: usize = 256;

thread_local! {
    /// Entries that wait until this thread has finished, because a callback may do anything, including calling cuDNN
    /// and throwing.
    static QUEUE: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
    static IS_FLUSHING: Cell<bool> = const { Cell::new(false) };
}

/// Queues an entry for the callback until [`flush`], and returns whether it did. Entries that the callback itself causes
/// are dropped.
pub(super) fn queue(message: Message) -> bool {
    let push = |queue: &RefCell<Vec<Message>>| {
        let mut queue = queue.try_borrow_mut().ok()?;
        (queue.len() < MAX_QUEUED).then(|| queue.push(message))
    };
    !IS_FLUSHING.try_with(Cell::get).unwrap_or(true) && QUEUE.try_with(push).is_ok_and(|pushed| pushed.is_some())
}

/// Passes this thread's queued entries to the callback. The caller must not hold a lock, and must let exceptions pass.
pub(crate) fn flush() {
    let _ = install();
    let messages = QUEUE.try_with(RefCell::take).unwrap_or_default();
    if messages.is_empty() {
        return;
    }
    let _guard = ThreadStateGuard::new();
    let _flushing = ReentrancyGuard::enter(&IS_FLUSHING);
    for message in messages {
        if let Some(callback) = current() {
            // SAFETY: a structure and NUL-terminated lines followed by a final NUL, which outlive the call.
            unsafe { callback.call(message.severity, &raw const message.debug, message.text.as_ptr().cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured with cuDNN 9.0.0, 9.10.2, 9.19.0 and 9.28.1.
    #[test]
    fn masks_are_the_same_as_in_cudnn() {
        let stored = |mask| Callback::new(mask, null_mut(), None).mask;
        let masks =
            [(0, 2), (1, 2), (2, 2), (4, 6), (7, 6), (8, 14), (9, 14), (10, 14), (11, 14), (15, 14), (0xffff, 14)];
        for (mask, expected) in masks {
            assert_eq!(stored(mask), expected, "{mask}");
        }
    }
}

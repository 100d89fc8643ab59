//! The callback that the program has set, and the entries that wait for it. Knows nothing of what an entry contains.
//!
//! cuDNN never gets the program's function. It gets one function of this file, before any thread's first call reaches
//! it: when cuDNN gets its first callback, it closes its log file, although other threads may be writing to it, and so
//! corrupts the heap. Later changes replace function and data together.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::{cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t};

use super::entry::{ERROR_BIT, WARNING_BIT};
use crate::resolve::libraries::graph_functions;
use crate::sync::once::RaceOnce;
use crate::thread::reentrancy::ReentrancyGuard;

/// The function in a `cudnnCallback_t`, which [`RECEIVE`] compares with cuDNN's declaration.
macro_rules! receive {
    ($abi:literal) => { unsafe extern $abi fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char) };
}
type Receive = receive!("C");
/// As above, but an exception that it throws passes through.
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
    /// Errors are always on, as with cuDNN.
    pub(crate) fn new(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> Self {
        Callback { mask: mask | ERROR_BIT, data, function }
    }

    /// Whether a function receives the entries. Without one, the program only set the mask.
    pub(super) fn has_function(&self) -> bool {
        self.function.is_some()
    }

    fn is(&self, other: &Callback) -> bool {
        (self.mask, self.data, address(self.function)) == (other.mask, other.data, address(other.function))
    }

    /// Calls the function as cuDNN does, if there is one and the mask has the severity. It may throw.
    ///
    /// # Safety
    /// `debug` and `message` are what cuDNN passes: a structure, and lines with a NUL behind each and one more at the
    /// end.
    unsafe fn call(&self, severity: cudnnSeverity_t, debug: *const cudnnDebug_t, message: *const c_char) {
        let Some(function) =
            self.function.filter(|_| (self.mask | FATAL_BIT).checked_shr(severity.0).is_some_and(|mask| mask & 1 == 1))
        else {
            return;
        };
        // SAFETY: the same function; the type only adds that it may unwind.
        let function = unsafe { std::mem::transmute::<Receive, ReceiveUnwind>(function) };
        // SAFETY: the program set the function and its data together; the rest is the caller's obligation.
        unsafe { function(severity, self.data, debug, message) }
    }
}

fn address(function: cudnnCallback_t) -> Option<usize> {
    function.map(|function| function as usize)
}

/// A callback that was set at some time. It is never freed, because a thread may be about to call it. The list has each
/// once.
struct Known {
    callback: Callback,
    next: *mut Known,
}

/// The head of the list.
static KNOWN: AtomicPtr<Known> = AtomicPtr::new(null_mut());
/// The callback that was set last. The loader's entries go there.
static CURRENT: AtomicPtr<Known> = AtomicPtr::new(null_mut());
/// The callback whose setting cuDNN has seen. cuDNN's entries go there: also the one about the setting of the next.
static ACTIVE: AtomicPtr<Known> = AtomicPtr::new(null_mut());
/// The number of times that a callback was set, and the number of the setting that cuDNN has got.
static SET_COUNT: AtomicU64 = AtomicU64::new(0);
static INSTALLED: AtomicU64 = AtomicU64::new(0);
/// Published when a thread has returned from cuDNN with the first callback.
static FIRST_INSTALLED: RaceOnce<()> = RaceOnce::new();

/// The list's entry for this callback, added if it is new.
fn intern(callback: Callback) -> *mut Known {
    let mut made: *mut Known = null_mut();
    loop {
        let first = KNOWN.load(Ordering::Acquire);
        let mut each = first;
        // SAFETY: null, or a leaked box that was complete before it was put into the list (Release below).
        while let Some(known) = unsafe { each.as_ref() } {
            if known.callback.is(&callback) {
                if !made.is_null() {
                    // SAFETY: made below, and never put into the list.
                    drop(unsafe { Box::from_raw(made) });
                }
                return each;
            }
            each = known.next;
        }
        if made.is_null() {
            made = Box::into_raw(Box::new(Known { callback, next: first }));
        } else {
            // SAFETY: it is not in the list yet, so no other thread has it.
            unsafe { (*made).next = first };
        }
        if KNOWN.compare_exchange(first, made, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return made;
        }
    }
}

/// The callback that was set last.
pub(super) fn current() -> Option<Callback> {
    // SAFETY: null, or an entry of the list, which stays.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }.map(|known| known.callback)
}

/// Makes this the callback. [`install`] passes it to cuDNN.
pub(crate) fn set(callback: Callback) {
    CURRENT.store(intern(callback), Ordering::SeqCst);
    SET_COUNT.fetch_add(1, Ordering::SeqCst);
}

/// Tells cuDNN of the callback if cuDNN is loaded and does not know it. The caller must let exceptions pass: cuDNN logs
/// the call, and the previous callback may throw.
pub(crate) fn install() -> cudnnStatus_t {
    match graph_functions() {
        Some(functions) => install_with(functions.set_callback),
        None => cudnnStatus_t::CUDNN_STATUS_SUCCESS,
    }
}

/// The same, for the address of cuDNN's `cudnnSetCallback`. Every thread comes here before its first call reaches
/// cuDNN, and waits while another thread installs the first callback: at most a second, as [`RaceOnce`] does.
pub(super) fn install_with(set_callback: *mut c_void) -> cudnnStatus_t {
    if is_pending() {
        FIRST_INSTALLED.get_or_init(|| {
            let _ = install_current(set_callback);
        });
    }
    install_current(set_callback)
}

/// Whether a first callback waits to be installed: no call may reach cuDNN before.
pub(crate) fn is_pending() -> bool {
    (!CURRENT.load(Ordering::SeqCst).is_null() || observer().is_some()) && FIRST_INSTALLED.get().is_none()
}

/// Receives each warning and error of cuDNN's before the program's callback does.
pub(super) type Observer = unsafe fn(*const c_char);

/// Null, or an [`Observer`].
static OBSERVER: AtomicPtr<()> = AtomicPtr::new(null_mut());
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Passes cuDNN's warnings and errors to this function from now on, whether or not the program sets a callback.
pub(super) fn observe(observer: Observer) {
    if IS_REFUSED.load(Ordering::SeqCst) {
        return;
    }
    if OBSERVER.swap(observer as *mut (), Ordering::SeqCst).is_null() {
        SET_COUNT.fetch_add(1, Ordering::SeqCst);
    }
}

/// Takes that back, before cuDNN has got a callback, and refuses it from now on.
pub(super) fn refuse_observers() {
    IS_REFUSED.store(true, Ordering::SeqCst);
    OBSERVER.store(null_mut(), Ordering::SeqCst);
}

fn observer() -> Option<Observer> {
    let observer = OBSERVER.load(Ordering::SeqCst);
    // SAFETY: `observe` stored a function of this type.
    (!observer.is_null()).then(|| unsafe { std::mem::transmute::<*mut (), Observer>(observer) })
}

/// No callback: what cuDNN has at first.
const NONE: Callback = Callback { mask: 0, data: null_mut(), function: None };

fn install_current(set_callback: *mut c_void) -> cudnnStatus_t {
    let mut status = cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    let mut has_installed = false;
    loop {
        let setting = SET_COUNT.load(Ordering::SeqCst);
        // If this thread has installed one, another thread may have installed a later one before it: check again.
        if !has_installed && INSTALLED.load(Ordering::SeqCst) == setting {
            return status;
        }
        let current = CURRENT.load(Ordering::SeqCst);
        let is_observed = observer().is_some();
        // SAFETY: null, or an entry of the list, which stays.
        let callback = match unsafe { current.as_ref() } {
            Some(Known { callback, .. }) => *callback,
            None if is_observed => NONE,
            None => return status,
        };
        // A program that sets a mask and no function wants the entries where the environment sends them.
        let is_observed = is_observed && (callback.has_function() || current.is_null());
        let mask = if is_observed { callback.mask | WARNING_BIT | ERROR_BIT } else { callback.mask };
        let function = if is_observed { RECEIVE } else { callback.function.and(RECEIVE) };
        // SAFETY: the address is that of cuDNN's function of this name.
        let set_callback = unsafe { std::mem::transmute::<*mut c_void, unwinding::cudnnSetCallback>(set_callback) };
        // SAFETY: the function accepts what cuDNN passes, and uses no data.
        status = unsafe { set_callback(mask, callback.data, function) };
        has_installed = true;
        if status.is_success() {
            ACTIVE.store(current, Ordering::SeqCst);
            INSTALLED.store(setting, Ordering::SeqCst);
        }
        if SET_COUNT.load(Ordering::SeqCst) == setting {
            return status;
        }
    }
}

// SAFETY: the same function; cuDNN is C++, so exceptions may pass through it.
const RECEIVE: cudnnCallback_t = Some(unsafe { std::mem::transmute::<ReceiveUnwind, Receive>(receive) });

/// The function that cuDNN has: passes each entry to the callback.
unsafe extern "C-unwind" fn receive(
    severity: cudnnSeverity_t,
    _: *mut c_void,
    debug: *const cudnnDebug_t,
    message: *const c_char,
) {
    if let Some(observe) = observer() {
        // SAFETY: cuDNN's lines, as long as this call lasts.
        unsafe { observe(message) };
    }
    if let Some(callback) = active() {
        // SAFETY: cuDNN's own, as long as this call lasts.
        unsafe { callback.call(severity, debug, message) };
    }
}

/// The callback that receives cuDNN's entries. A call may log before the thread that set the first one has noted it.
fn active() -> Option<Callback> {
    // SAFETY: null, or an entry of the list, which stays.
    unsafe { ACTIVE.load(Ordering::SeqCst).as_ref() }.map(|known| known.callback).or_else(current)
}

/// What the program has set, if cuDNN has the function of this file.
pub(crate) fn program_callback(function: cudnnCallback_t) -> Option<(c_uint, cudnnCallback_t)> {
    let callback = || active().unwrap_or(NONE);
    (address(function) == address(RECEIVE)).then(|| (callback().mask, callback().function))
}

/// An entry for the callback.
pub(super) struct Message {
    pub(super) severity: cudnnSeverity_t,
    pub(super) debug: cudnnDebug_t,
    /// Lines with a NUL behind each, and one more at the end.
    pub(super) text: Vec<u8>,
}

/// More than one call emits.
const MAX_QUEUED: usize = 256;

thread_local! {
    /// Entries that wait until this thread's work is done: a callback may do anything, also call cuDNN, or throw.
    static QUEUE: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
    static IS_FLUSHING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps an entry for the callback until [`flush`]. Entries that a callback itself causes are dropped.
pub(super) fn queue(message: Message) {
    if !IS_FLUSHING.try_with(Cell::get).unwrap_or(true) {
        let _ = QUEUE.try_with(|queue| {
            let mut queue = queue.try_borrow_mut().ok()?;
            (queue.len() < MAX_QUEUED).then(|| queue.push(message))
        });
    }
}

/// Passes the waiting entries of this thread to the callback. The caller must have no lock, and let exceptions pass.
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
            // SAFETY: a structure, and lines with a NUL behind each and one more at the end. Both outlive the call.
            unsafe { callback.call(message.severity, &raw const message.debug, message.text.as_ptr().cast()) };
        }
    }
}

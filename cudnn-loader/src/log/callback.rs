//! Who receives cuDNN's log by callback, and what waits to be given to it. Knows nothing of what an entry says, nor how cuDNN
//! is loaded.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::ERRORS;
use crate::sync::lock;
use crate::uncancelled::Uncancelled;
use crate::{cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t};

type SetCallback = unsafe extern "C-unwind" fn(c_uint, *mut c_void, cudnnCallback_t) -> cudnnStatus_t;
type NotUnwinding = unsafe extern "C" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);
/// As `cudnnCallback_t` has it; an exception that it throws passes.
type Receive = unsafe extern "C-unwind" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);

/// What was last given to `cudnnSetCallback`.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(super) mask: c_uint,
    data: *mut c_void,
    function: cudnnCallback_t,
    /// cuDNN has been told of it.
    is_told: bool,
}

// SAFETY: the pointer is handed on and never followed here; who gave it knows that cuDNN calls from any thread.
unsafe impl Send for Callback {}

static CALLBACK: Mutex<Option<Callback>> = Mutex::new(None);

impl Callback {
    /// Errors come in any case, as with cuDNN.
    pub(crate) fn new(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> Self {
        Callback { mask: mask | ERRORS, data, function, is_told: false }
    }

    /// Does anything receive the entries? Without, the mask alone was set.
    pub(super) fn receives(&self) -> bool {
        self.function.is_some()
    }
}

/// The callback that was last set through this crate.
pub(super) fn current() -> Option<Callback> {
    *lock(&CALLBACK)?
}

/// From now on, this is the callback. cuDNN is not told yet.
pub(crate) fn set(callback: Callback) {
    if let Some(mut current) = lock(&CALLBACK) {
        *current = Some(callback);
    }
}

/// cuDNN's own function, once it is in use.
static SET_CALLBACK: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// cuDNN is in use, and this is its own `cudnnSetCallback`: it learns of the callback that was set before.
pub(crate) fn in_use(address: *mut ()) -> cudnnStatus_t {
    SET_CALLBACK.store(address, Ordering::Release);
    tell()
}

/// Tells cuDNN, if it is in use, and unless it knows, or nobody has set one through this crate.
pub(super) fn tell() -> cudnnStatus_t {
    let address = SET_CALLBACK.load(Ordering::Acquire);
    if address.is_null() {
        return cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    }
    let Some(Callback { mask, data, function, is_told: false }) = current() else {
        return cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    };
    // SAFETY: the address is that of cuDNN's function of this name.
    let set_callback = unsafe { std::mem::transmute::<*mut (), SetCallback>(address) };
    // SAFETY: the obligation of who gave the function and its data.
    let status = unsafe { set_callback(mask, data, function) };
    if let Some(current) = lock(&CALLBACK).as_deref_mut().and_then(Option::as_mut) {
        // Another thread may have set another one meanwhile.
        let is_same = (current.mask, current.data) == (mask, data)
            && current.function.map(|one| one as usize) == function.map(|one| one as usize);
        current.is_told |= is_same && status.is_success();
    }
    status
}

/// An entry for the callback.
pub(super) struct Message {
    pub(super) severity: cudnnSeverity_t,
    pub(super) debug: cudnnDebug_t,
    /// Lines with a NUL behind each, and one more at the end.
    pub(super) text: Vec<u8>,
}

thread_local! {
    /// What this thread has to tell once it is done: a callback may do anything, also call cuDNN, or throw.
    static QUEUE: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
    static IS_DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps an entry for the callback until [`deliver`]. What a callback itself brings about is not told to it.
pub(super) fn queue(message: Message) {
    if !IS_DELIVERING.try_with(Cell::get).unwrap_or(true) {
        let _ = QUEUE.try_with(|queue| queue.try_borrow_mut().map(|mut queue| queue.push(message)));
    }
}

/// Gives the callback what this thread has to tell. To be called where nothing is held or half done.
pub(crate) fn deliver() {
    let messages = QUEUE.try_with(RefCell::take).unwrap_or_default();
    if messages.is_empty() {
        return;
    }
    let _uncancelled = Uncancelled::new();
    let _delivering = Delivering::begin();
    for message in messages {
        let Some(Callback { data, function: Some(function), .. }) = current() else { continue };
        // SAFETY: the same function; that it may unwind is only said.
        let receive = unsafe { std::mem::transmute::<NotUnwinding, Receive>(function) };
        // SAFETY: as cuDNN calls it: the data that came with it, a structure and lines that outlive the call.
        unsafe { receive(message.severity, data, &raw const message.debug, message.text.as_ptr().cast()) };
    }
}

/// A callback is being called in this thread.
struct Delivering;

impl Delivering {
    fn begin() -> Self {
        let _ = IS_DELIVERING.try_with(|is| is.set(true));
        Delivering
    }
}

impl Drop for Delivering {
    fn drop(&mut self) {
        let _ = IS_DELIVERING.try_with(|is| is.set(false));
    }
}

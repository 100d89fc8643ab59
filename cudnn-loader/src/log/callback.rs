//! Who receives cuDNN's log by callback. `cudnnSetCallback` is answered here, so that who sets one gets this crate's own
//! entries too, and gets them also when cuDNN cannot be loaded. Knows nothing of what an entry says.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_uint, c_void};
use std::sync::Mutex;

use super::ERRORS;
use crate::functions::{Uncancelled, guarded};
use crate::sync::lock;
use crate::{Function, cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t, loading};

type SetCallback = unsafe extern "C-unwind" fn(c_uint, *mut c_void, cudnnCallback_t) -> cudnnStatus_t;
type NotUnwinding = unsafe extern "C" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);
/// As `cudnnCallback_t` has it; an exception that it throws passes.
type Receive = unsafe extern "C-unwind" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);

/// What was last given to `cudnnSetCallback`.
#[derive(Clone, Copy)]
pub(super) struct Callback {
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
    pub(super) fn new(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> Self {
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

/// The function in place of cuDNN's.
pub(crate) fn own(function: Function) -> Option<*mut ()> {
    (function == Function::CudnnSetCallback).then_some(set_callback as *const () as *mut ())
}

/// # Safety
/// As cuDNN's own: the function takes what cuDNN gives, with this data, in any thread.
unsafe extern "C-unwind" fn set_callback(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> cudnnStatus_t {
    set(Callback::new(mask, data, function));
    let name = || Function::CudnnSetCallback.to_string();
    let found = guarded(&|| loading::address(Function::CudnnSetCallback), &name);
    deliver();
    match found {
        Ok(address) => tell(address),
        Err(status) => status,
    }
}

/// From now on, this is the callback. cuDNN is not told yet.
pub(super) fn set(callback: Callback) {
    if let Some(mut current) = lock(&CALLBACK) {
        *current = Some(callback);
    }
}

/// Tells cuDNN, by its own `cudnnSetCallback` at this address; unless it knows, or nobody has set one through this crate.
pub(super) fn tell(address: *mut ()) -> cudnnStatus_t {
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

//! Who receives cuDNN's log by callback, and what waits to be given to it. Knows nothing of what an entry says, nor how cuDNN
//! is loaded.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::ERRORS;
use crate::uncancelled::CancelDisabled;
use crate::within::ReentrancyGuard;
use crate::{cudnnCallback_t, cudnnDebug_t, cudnnSeverity_t, cudnnStatus_t};

type SetCallback = unsafe extern "C-unwind" fn(c_uint, *mut c_void, cudnnCallback_t) -> cudnnStatus_t;
type NotUnwinding = unsafe extern "C" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);
/// As `cudnnCallback_t` has it; an exception that it throws passes.
type Receive = unsafe extern "C-unwind" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);

/// What is given to `cudnnSetCallback`.
#[derive(Clone, Copy)]
pub(crate) struct Callback {
    pub(super) mask: c_uint,
    data: *mut c_void,
    function: cudnnCallback_t,
}

impl Callback {
    /// Errors come in any case, as with cuDNN.
    pub(crate) fn new(mask: c_uint, data: *mut c_void, function: cudnnCallback_t) -> Self {
        Callback { mask: mask | ERRORS, data, function }
    }

    /// Does anything receive the entries? Without, the mask alone was set.
    pub(super) fn receives(&self) -> bool {
        self.function.is_some()
    }

    fn is(&self, other: &Callback) -> bool {
        let address = |callback: &Callback| callback.function.map(|function| function as usize);
        (self.mask, self.data, address(self)) == (other.mask, other.data, address(other))
    }
}

/// One of those that were ever set. They stay, since a thread may be about to call one; each is there once.
struct Known {
    callback: Callback,
    next: *mut Known,
}

static KNOWN: AtomicPtr<Known> = AtomicPtr::new(null_mut());
/// The one that was set last, through this crate.
static CURRENT: AtomicPtr<Known> = AtomicPtr::new(null_mut());
/// How often one was set, and the last of these settings that cuDNN was told of.
static SETTINGS: AtomicU64 = AtomicU64::new(0);
static TOLD: AtomicU64 = AtomicU64::new(0);
/// cuDNN's own `cudnnSetCallback`, once it is in use.
static SET_CALLBACK: AtomicPtr<()> = AtomicPtr::new(null_mut());

fn known(callback: Callback) -> *mut Known {
    let mut made: *mut Known = null_mut();
    loop {
        let first = KNOWN.load(Ordering::Acquire);
        let mut each = first;
        // SAFETY: null, or a leaked box, wholly written before it was put into the list (Release below).
        while let Some(one) = unsafe { each.as_ref() } {
            if one.callback.is(&callback) {
                if !made.is_null() {
                    // SAFETY: made below, and never put into the list.
                    drop(unsafe { Box::from_raw(made) });
                }
                return each;
            }
            each = one.next;
        }
        if made.is_null() {
            made = Box::into_raw(Box::new(Known { callback, next: first }));
        } else {
            // SAFETY: it is not in the list yet, so nobody else has it.
            unsafe { (*made).next = first };
        }
        if KNOWN.compare_exchange(first, made, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return made;
        }
    }
}

/// The callback that was last set through this crate.
pub(super) fn current() -> Option<Callback> {
    // SAFETY: null, or one of the list, which stay.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }.map(|known| known.callback)
}

/// From now on, this is the callback. cuDNN is not told yet.
pub(crate) fn set(callback: Callback) {
    CURRENT.store(known(callback), Ordering::SeqCst);
    SETTINGS.fetch_add(1, Ordering::SeqCst);
}

/// cuDNN is in use, and this is its own `cudnnSetCallback`.
pub(crate) fn in_use(address: *mut ()) {
    SET_CALLBACK.store(address, Ordering::SeqCst);
}

/// Tells cuDNN, if it is in use, and unless it knows, or nobody has set one through this crate. To be called where an exception
/// passes: cuDNN logs the call, and the callback of before may throw.
pub(crate) fn tell() -> cudnnStatus_t {
    let mut status = cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    let mut has_told = false;
    loop {
        let setting = SETTINGS.load(Ordering::SeqCst);
        // What this thread told may have come after what another one told of a later setting: then again, in any case.
        if !has_told && TOLD.load(Ordering::SeqCst) == setting {
            return status;
        }
        let address = SET_CALLBACK.load(Ordering::SeqCst);
        // SAFETY: null, or one of the list, which stay.
        let current = unsafe { CURRENT.load(Ordering::SeqCst).as_ref() };
        let Some(Known { callback, .. }) = current.filter(|_| !address.is_null()) else { return status };
        // SAFETY: the address is that of cuDNN's function of this name.
        let set_callback = unsafe { std::mem::transmute::<*mut (), SetCallback>(address) };
        // SAFETY: the obligation of who gave the function and its data.
        status = unsafe { set_callback(callback.mask, callback.data, callback.function) };
        has_told = true;
        if status.is_success() {
            TOLD.store(setting, Ordering::SeqCst);
        }
        if SETTINGS.load(Ordering::SeqCst) == setting {
            return status;
        }
    }
}

/// An entry for the callback.
pub(super) struct Message {
    pub(super) severity: cudnnSeverity_t,
    pub(super) debug: cudnnDebug_t,
    /// Lines with a NUL behind each, and one more at the end.
    pub(super) text: Vec<u8>,
}

/// More than one call has to tell.
const MAX_QUEUED: usize = 256;

thread_local! {
    /// What this thread has to tell once it is done: a callback may do anything, also call cuDNN, or throw.
    static QUEUE: RefCell<Vec<Message>> = const { RefCell::new(Vec::new()) };
    static IS_DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps an entry for the callback until [`deliver`]. What a callback itself brings about is not told to it.
pub(super) fn queue(message: Message) {
    if !IS_DELIVERING.try_with(Cell::get).unwrap_or(true) {
        let _ = QUEUE.try_with(|queue| {
            let mut queue = queue.try_borrow_mut().ok()?;
            (queue.len() < MAX_QUEUED).then(|| queue.push(message))
        });
    }
}

/// Gives the callback what this thread has to tell. To be called where nothing is held or half done, and an exception passes.
pub(crate) fn flush() {
    tell();
    let messages = QUEUE.try_with(RefCell::take).unwrap_or_default();
    if messages.is_empty() {
        return;
    }
    let _uncancelled = CancelDisabled::new();
    let _delivering = ReentrancyGuard::enter(&IS_DELIVERING);
    for message in messages {
        let Some(Callback { data, function: Some(function), .. }) = current() else { continue };
        // SAFETY: the same function; that it may unwind is only said.
        let receive = unsafe { std::mem::transmute::<NotUnwinding, Receive>(function) };
        // SAFETY: as cuDNN calls it: the data that came with it, a structure and lines that outlive the call.
        unsafe { receive(message.severity, data, &raw const message.debug, message.text.as_ptr().cast()) };
    }
}

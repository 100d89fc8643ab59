//! Stores the active layers and the functions that they wrapped.

use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_layer_api::abi;

use crate::function::Function;
use crate::sync::once::RaceOnce;

/// An active layer. Never freed, because the program may be executing code of the layer.
pub(super) struct Link {
    pub(super) name: CString,
    pub(super) path: Option<PathBuf>,
    layer: abi::Layer,
    /// The layer's entry point.
    pub(super) begin: abi::Begin,
    /// The next layer in the direction of cuDNN.
    pub(super) inner: Option<&'static Link>,
    /// The addresses that the layer returned, indexed by function; null for functions that it has not wrapped yet.
    wrapped: Box<[AtomicPtr<()>]>,
}

// SAFETY: a layer's functions may be called from any thread.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

/// The outermost active layer, set after all layers have started.
pub(super) struct Chain(pub(super) Option<&'static Link>);

pub(super) static CHAIN: RaceOnce<Chain> = RaceOnce::new();

pub(super) fn has_begun() -> bool {
    CHAIN.get().is_some()
}

/// Returns whether it is certain that no layer will be active.
pub(super) fn is_empty() -> bool {
    CHAIN.get().is_some_and(|chain| chain.0.is_none())
}

pub(super) fn stay_empty() {
    CHAIN.get_or_init(|| Chain(None));
}

/// Returns the active layers, outermost first.
pub(super) fn links() -> impl Iterator<Item = &'static Link> {
    std::iter::successors(CHAIN.get().and_then(|chain| chain.0), |link| link.inner)
}

impl Link {
    /// Creates the entry for a newly started layer.
    pub(super) fn new(
        name: CString,
        path: Option<PathBuf>,
        layer: abi::Layer,
        begin: abi::Begin,
        inner: Option<&'static Link>,
    ) -> Self {
        let wrapped = Function::ALL.iter().map(|_| AtomicPtr::new(null_mut())).collect();
        Link { name, path, layer, begin, inner, wrapped }
    }

    pub(super) fn known(&self, function: Function) -> Option<*mut ()> {
        let known = self.wrapped.get(function as usize)?.load(Ordering::Acquire);
        (!known.is_null()).then_some(known)
    }

    pub(super) fn wrap(&self, function: Function, next: *mut ()) -> *mut () {
        let asked: *mut () = self.layer.wrap.map_or(null_mut(), |wrap| {
            // SAFETY: calls the layer's function as the header specifies, with a C string and the address of cuDNN's or
            // a layer's function of that name.
            unsafe { wrap(self.layer.data, function.symbol().as_ptr(), next.cast()) }.cast()
        });
        let wrapped = if asked.is_null() { next } else { asked };
        if let Some(cell) = self.wrapped.get(function as usize) {
            cell.store(wrapped, Ordering::Release);
        }
        wrapped
    }

    pub(super) fn pass(&self, event: &abi::Event) {
        if let Some(pass) = self.layer.event {
            // SAFETY: calls the layer's function; the event and all strings outlive the call.
            unsafe { pass(self.layer.data, event) };
        }
    }
}

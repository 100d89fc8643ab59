//! The layers that are on, and what each returned for each function.

use std::ffi::CString;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_layer_api::abi;

use crate::function::Function;
use crate::sync::once::RaceOnce;

/// A layer that is on. Never freed: the program may be inside its functions.
pub(super) struct Link {
    pub(super) name: CString,
    pub(super) path: Option<PathBuf>,
    layer: abi::Layer,
    /// Its entry point.
    pub(super) begin: abi::Begin,
    /// The next layer towards cuDNN.
    pub(super) inner: Option<&'static Link>,
    /// What the layer returned for each function; null where it has not been asked.
    wrapped: Box<[AtomicPtr<()>]>,
}

// SAFETY: a layer's functions may be called in any thread.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

/// The outermost layer, once all have begun.
pub(super) struct Chain(pub(super) Option<&'static Link>);

pub(super) static CHAIN: RaceOnce<Chain> = RaceOnce::new();

pub(super) fn has_begun() -> bool {
    CHAIN.get().is_some()
}

/// It is certain that no layer is on.
pub(super) fn is_empty() -> bool {
    CHAIN.get().is_some_and(|chain| chain.0.is_none())
}

pub(super) fn stay_empty() {
    CHAIN.get_or_init(|| Chain(None));
}

/// The layers that are on, the outermost first.
pub(super) fn links() -> impl Iterator<Item = &'static Link> {
    std::iter::successors(CHAIN.get().and_then(|chain| chain.0), |link| link.inner)
}

impl Link {
    /// A layer that has begun and has not been asked for any function.
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

    pub(super) fn ask(&self, function: Function, next: *mut ()) -> *mut () {
        let asked: *mut () = self.layer.wrap.map_or(null_mut(), |wrap| {
            // SAFETY: the layer's function, called as the header describes, with a string and cuDNN's or a layer's
            // function of that name.
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
            // SAFETY: the layer's function; the event and its strings live as long as the call.
            unsafe { pass(self.layer.data, event) };
        }
    }
}

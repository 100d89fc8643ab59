//! Layers intercept calls between the program and cuDNN: `program -> slot -> layer -> layer -> cuDNN's function`.
//!
//! A layer can observe and replace every function that the program calls. The loader calls the layer once per function,
//! when the first call resolves it, and stores the returned address in the function's slot. Functions that no layer
//! wraps cost nothing extra.
//!
//! The environment variable `CUDNN_LAYERS` enables layers for any program. It lists them from the outermost to the
//! innermost, either by absolute path or by a name that is searched in `CUDNN_LAYER_PATH` and next to the loader. A
//! program can add layers with [`add`] and [`add_from`]; these run inside the layers from the environment. See
//! `cudnn_layer.h` and the crate `cudnn-layer-api` for how to write a layer.
//!
//! # If a layer fails
//! The program continues without the layer. The reason is logged as an error, or written to standard error if logging
//! is off.
//!
//! # When layers start
//! All layers start together, when the program first calls a function that needs cuDNN. While another thread is busy
//! with layers, a call waits at most one second, because that thread may itself wait for a lock of the calling thread,
//! such as ld.so's. After that, the call bypasses the layers, and the next call of the function tries them again.
//!
//! Add layers before the first call and before [`load`](crate::load). cuDNN reads some environment variables when it is
//! loaded, and the loader saves the environment at that moment only if it knows of a layer.
//!
//! The environment variables are ignored in secure-execution mode.

mod begin;
mod chain;
mod environment;
pub(crate) mod events;
mod host;
mod link;
mod requests;
mod text;

use std::ffi::CString;
use std::panic::catch_unwind;
use std::path::PathBuf;

use crate::function::Function;
use crate::resolve::libraries;

pub use cudnn_layer_api::Layer;
pub use cudnn_layer_api::abi::Begin;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_probe::Library;
pub use requests::{AddError, add, add_from};

/// An active layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveLayer {
    /// The name or path under which the layer was requested.
    pub name: CString,
    /// The layer's file; `None` for a layer that the program added.
    pub path: Option<PathBuf>,
}

/// Returns the active layers, outermost first. Empty until the first call of a function that needs cuDNN.
#[must_use]
pub fn active() -> Vec<ActiveLayer> {
    link::links().map(|link| ActiveLayer { name: link.name.clone(), path: link.path.clone() }).collect()
}

/// The address to store in a function's slot or to use for a single call.
pub(crate) struct Target {
    pub(crate) address: *mut (),
    /// Whether all later calls may use this address too.
    pub(crate) is_final: bool,
}

/// Passes the function at this address to the layers and returns the address to call instead.
pub(crate) fn wrap(function: Function, address: *mut ()) -> Target {
    let unlayered = |is_final| Target { address, is_final };
    if link::is_empty() {
        return unlayered(true);
    }
    // Loading a layer is a cancellation point, and cancellation must not unwind into the program.
    let _guard = ThreadStateGuard::new();
    if !link::has_begun() {
        if requests::close_if_empty() {
            link::stay_empty();
            return unlayered(true);
        }
        // This function works without cuDNN, for example cudnnGetErrorString.
        if libraries::loaded(Library::Graph).is_none() {
            return unlayered(false);
        }
    }
    let wrapped = catch_unwind(|| {
        let wrapped = chain::wrap(function, address, begin::begin)?;
        // After the turn is released, because a layer may call cuDNN from this thread when it receives the events.
        events::pass_earlier();
        Some(wrapped)
    });
    let wrapped = wrapped.ok().flatten();
    wrapped.map_or(unlayered(false), |address| Target { address, is_final: true })
}

//! Layers, which stand between the program and cuDNN: `program -> slot -> layer -> layer -> cuDNN's function`.
//!
//! A layer sees and may replace each function that the program calls. It is asked once for each function, when the first
//! call resolves it, and what it returns goes into the function's slot. So a function that no layer wants, and every
//! function when no layer is on, costs what it costs without layers.
//!
//! The environment variable `CUDNN_LAYERS` lists layers for any program, the outermost first: names, which are looked up
//! in `CUDNN_LAYER_PATH` and beside the loader, or absolute paths. A program adds its layers with [`add`] and
//! [`add_from`]; they are inside those of the environment. `cudnn_layer.h` and the crate `cudnn-layer-api` define what a
//! layer is.
//!
//! # If a layer fails
//! The program goes on without it. The reason is logged as an error; it goes to the standard error if no log is on.
//!
//! # When
//! All layers begin together, when the first function is called that needs cuDNN. A thread waits at most a second for
//! another that is busy with layers (it may itself wait for a lock of this thread, such as ld.so's); then this one call
//! reaches cuDNN without layers, and the next call of the function asks them again.
//!
//! Add layers before the first call and before [`load`](crate::load): cuDNN reads some variables of the environment when it is loaded,
//! and the loader keeps the environment of that moment for the layers that it knows of then.
//!
//! In secure-execution mode the variables are ignored.

mod begin;
mod chain;
mod environment;
mod events;
mod host;
mod link;
mod requests;
mod text;

use std::ffi::CString;
use std::panic::catch_unwind;
use std::path::PathBuf;

use crate::function::Function;
use crate::resolve::libraries;
use crate::sub_library::SubLibrary;

pub use cudnn_layer_api::Layer;
pub use cudnn_layer_api::abi::Begin;
use cudnn_os::cancel::ThreadStateGuard;
pub use requests::{AddError, add, add_from};

pub(crate) use events::pass_to_layers;

/// A layer that is on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveLayer {
    /// The layer, as it was requested.
    pub name: CString,
    /// Its file; `None` for a layer that the program added.
    pub path: Option<PathBuf>,
}

/// The layers that are on, the outermost first. None before the first function was called that needs cuDNN.
#[must_use]
pub fn active() -> Vec<ActiveLayer> {
    link::links().map(|link| ActiveLayer { name: link.name.clone(), path: link.path.clone() }).collect()
}

/// The address for a function's slot, or for one call.
pub(crate) struct Target {
    pub(crate) address: *mut (),
    /// All later calls may use it too.
    pub(crate) is_final: bool,
}

/// Asks the layers for the function to call in place of the one at this address.
pub(crate) fn wrap(function: Function, address: *mut ()) -> Target {
    let unlayered = |is_final| Target { address, is_final };
    if link::is_empty() {
        return unlayered(true);
    }
    // Loading a layer is a cancellation point, and nothing here may unwind into the program.
    let _guard = ThreadStateGuard::new();
    if !link::has_begun() {
        if requests::close_if_none() {
            link::stay_empty();
            return unlayered(true);
        }
        // A function that works without cuDNN, such as cudnnGetErrorString.
        if libraries::loaded(SubLibrary::Graph).is_none() {
            return unlayered(false);
        }
    }
    let wrapped = catch_unwind(|| {
        let wrapped = chain::wrap(function, address, begin::begin)?;
        // Not while the chain is busy: a layer's events may come from this thread at once.
        events::pass_earlier();
        Some(wrapped)
    });
    let wrapped = wrapped.ok().flatten();
    wrapped.map_or(unlayered(false), |address| Target { address, is_final: true })
}

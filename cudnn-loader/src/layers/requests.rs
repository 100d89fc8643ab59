//! Collects the layers that the program adds or the environment requests, until they start.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

use cudnn_layer_api::abi::Begin;
use cudnn_layer_api::{Layer, begin};
use cudnn_probe::Host;
use cudnn_probe::layers::{LAYER_PATH_VARIABLE, LAYERS_VARIABLE, RequestedLayer, installed_layers, requested_layers};
use once_cell::race::OnceBool;

use super::text::c_string;
use crate::dl::objects::LoadedObjects;
use crate::sync::primitives::lock;

/// A requested layer, before it starts.
pub(super) struct Request {
    pub(super) name: CString,
    pub(super) source: Source,
}

pub(super) enum Source {
    /// The entry point, for a layer that the program added.
    Program(Begin),
    /// The files to try, in order.
    Files(Vec<PathBuf>),
    /// The search for the layer failed, for this reason.
    None(String),
}

/// The state of the program's own layers.
enum Added {
    /// Before the first call: more layers may be added.
    Open(Vec<Request>),
    /// The layers are starting or have started.
    Taken,
    /// The list of layers was empty.
    None,
}

static ADDED: Mutex<Added> = Mutex::new(Added::Open(Vec::new()));

/// The reason why a layer could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// The program has already called cuDNN, and layers cannot intercept resolved functions.
    TooLate,
    /// The name contains a NUL.
    NulInName,
}

impl std::error::Error for AddError {}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddError::TooLate => "cuDNN was called before the layer was added: add layers before the first call",
            AddError::NulInName => "the layer's name contains a NUL",
        })
    }
}

/// Adds a layer of the program. It runs inside the layers from the environment and the layers that were added before.
/// It starts when the program first calls a function that needs cuDNN.
///
/// # Errors
/// See [`AddError`].
pub fn add<L: Layer>(name: &str) -> Result<(), AddError> {
    // SAFETY: `begin` implements `cudnnLayerBegin` for a layer written in Rust.
    unsafe { add_from(name, begin::<L>) }
}

/// Adds a layer by entry point, for example the `cudnnLayerBegin` of a C layer that is linked to the program. Otherwise
/// like [`add`].
///
/// # Errors
/// See [`AddError`].
///
/// # Safety
/// The function fulfills the requirements of `cudnn_layer.h`.
pub unsafe fn add_from(name: &str, begin: Begin) -> Result<(), AddError> {
    let name = CString::new(name).map_err(|_| AddError::NulInName)?;
    let mut added = lock(&ADDED).ok_or(AddError::TooLate)?;
    let Added::Open(layers) = &mut *added else { return Err(AddError::TooLate) };
    layers.push(Request { name, source: Source::Program(begin) });
    Ok(())
}

/// Returns whether the list of layers to start is empty. If so, adding layers fails from now on.
pub(super) fn close_if_empty() -> bool {
    // Reads files, so it is called before the lock is taken.
    let are_listed = are_listed();
    let Some(mut added) = lock(&ADDED) else { return false };
    let is_empty = matches!(&*added, Added::Open(layers) if layers.is_empty());
    if is_empty && !are_listed {
        *added = Added::None;
    }
    matches!(&*added, Added::None)
}

/// Returns whether any layers have been requested so far.
pub(super) fn has_any() -> bool {
    let is_added = lock(&ADDED).is_some_and(|added| matches!(&*added, Added::Open(layers) if !layers.is_empty()));
    is_added || are_listed()
}

/// Returns whether the environment or the file next to the drop-in lists layers.
fn are_listed() -> bool {
    static ARE_INSTALLED: OnceBool = OnceBool::new();
    let are_installed = || library_dir().and_then(|dir| installed_layers(&dir)).is_some();
    Host::current().variable(LAYERS_VARIABLE).is_some() || ARE_INSTALLED.get_or_init(are_installed)
}

/// Returns the directory of the library that contains this code, if it is a library.
fn library_dir() -> Option<PathBuf> {
    Some(LoadedObjects::snapshot().containing_library()?.parent()?.to_owned())
}

/// Returns all layers to start, outermost first. Adding layers fails from now on.
pub(super) fn take() -> Vec<Request> {
    let host = Host::current().with_variables(&[LAYERS_VARIABLE, LAYER_PATH_VARIABLE]);
    let requested = requested_layers(&host, library_dir().as_deref());
    let mut requests: Vec<Request> = requested.into_iter().map(request).collect();
    if let Some(mut added) = lock(&ADDED)
        && let Added::Open(layers) = std::mem::replace(&mut *added, Added::Taken)
    {
        requests.extend(layers);
    }
    requests
}

fn request(RequestedLayer { name, files, .. }: RequestedLayer) -> Request {
    let source = match files {
        Ok(files) => Source::Files(files),
        Err(error) => Source::None(error.to_string()),
    };
    Request { name: c_string(&name), source }
}

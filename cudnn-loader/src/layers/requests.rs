//! The layers that the program adds and those that the environment requests, until they begin.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;

use cudnn_layer_api::abi::Begin;
use cudnn_layer_api::{Layer, begin};
use cudnn_probe::layers::{LAYER_PATH_VARIABLE, LAYERS_VARIABLE, RequestedLayer, requested_layers};

use super::text::c_string;
use crate::dl;
use crate::dl::objects::LoadedObjects;
use crate::sync::primitives::lock;

/// A layer that was requested, and has not begun.
pub(super) struct Request {
    pub(super) name: CString,
    pub(super) source: Source,
}

pub(super) enum Source {
    /// The program's.
    Program(Begin),
    /// The first of these files that has the layer.
    Files(Vec<PathBuf>),
    /// There is none.
    None(String),
}

/// What the program adds.
enum Added {
    /// Before the first call: it may add more.
    Open(Vec<Request>),
    /// The layers begin, or have begun.
    Taken,
    /// There was no layer to begin.
    None,
}

static ADDED: Mutex<Added> = Mutex::new(Added::Open(Vec::new()));

/// Why a layer was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError {
    /// The program has called cuDNN already: what it has resolved no layer can see.
    TooLate,
    /// The name has a NUL in it.
    NulInName,
}

impl std::error::Error for AddError {}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddError::TooLate => "cuDNN was called before the layer was added: add layers before the first call",
            AddError::NulInName => "the layer's name has a NUL in it",
        })
    }
}

/// Adds a layer of the program, inside those that were added before and those of the environment. It begins when the
/// first function is called that needs cuDNN.
///
/// # Errors
/// See [`AddError`].
pub fn add<L: Layer>(name: &str) -> Result<(), AddError> {
    // SAFETY: the function is `cudnnLayerBegin` for a layer in Rust.
    unsafe { add_from(name, begin::<L>) }
}

/// Adds a layer by its entry point, as [`add`] does: `cudnnLayerBegin` of a layer in C that is linked to the program.
///
/// # Errors
/// See [`AddError`].
///
/// # Safety
/// The function does what `cudnn_layer.h` requires.
pub unsafe fn add_from(name: &str, begin: Begin) -> Result<(), AddError> {
    let name = CString::new(name).map_err(|_| AddError::NulInName)?;
    let mut added = lock(&ADDED).ok_or(AddError::TooLate)?;
    let Added::Open(layers) = &mut *added else { return Err(AddError::TooLate) };
    layers.push(Request { name, source: Source::Program(begin) });
    Ok(())
}

/// Whether there is no layer to begin. From then on none can be added.
pub(super) fn close_if_none() -> bool {
    let Some(mut added) = lock(&ADDED) else { return false };
    let is_empty = matches!(&*added, Added::Open(layers) if layers.is_empty());
    if is_empty && dl::host().variable(LAYERS_VARIABLE).is_none() {
        *added = Added::None;
    }
    matches!(&*added, Added::None)
}

/// Whether a layer is to begin, as far as is known now.
pub(super) fn has_any() -> bool {
    let is_added = lock(&ADDED).is_some_and(|added| matches!(&*added, Added::Open(layers) if !layers.is_empty()));
    is_added || dl::host().variable(LAYERS_VARIABLE).is_some()
}

/// All layers to begin, the outermost first. From now on none can be added.
pub(super) fn take() -> Vec<Request> {
    let host = dl::host().with_variables(&[LAYERS_VARIABLE, LAYER_PATH_VARIABLE]);
    let library = LoadedObjects::snapshot().containing_library();
    let requested = requested_layers(&host, library.as_deref().and_then(std::path::Path::parent));
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

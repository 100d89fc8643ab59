//! What the layer has in this process.

use std::ffi::OsString;
use std::sync::OnceLock;

use cudnn_layer_api::Host;
use cudnn_plan_store::Store;

use super::cudnn::Cudnn;
use crate::report::Destination;

/// The layer, once it has begun.
pub(super) struct State {
    pub(super) host: Host,
    pub(super) cudnn: Cudnn,
    pub(super) store: Store,
    /// What all keys begin with.
    pub(super) environment: Vec<u8>,
    /// The variables that are part of it.
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Where a summary goes when the process exits.
    pub(super) summary: Option<Destination>,
}

/// Set once, when the layer begins.
pub(super) static STATE: OnceLock<State> = OnceLock::new();

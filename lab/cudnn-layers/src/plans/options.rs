//! The options of the layer, from the environment or from the program.

use std::ffi::OsString;

use cudnn_store::plans::Settings;

use crate::configured::configured_in_code;
use crate::report::Destination;

/// Options of the layer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// `CUDNN_PLANS_DIR`, `CUDNN_PLANS_LIMIT` and `CUDNN_PLANS_PACK`: where plans are cached.
    pub store: Settings,
    /// `CUDNN_PLANS_SUMMARY`: where to write a summary when the process exits.
    pub summary: Option<Destination>,
}

configured_in_code!(Options);

impl Options {
    /// Reads the options from the environment. Also returns the problems with invalid values.
    pub fn from_environment() -> (Options, Vec<String>) {
        let (store, problems) = Settings::from_environment();
        let summary = std::env::var_os("CUDNN_PLANS_SUMMARY").filter(|value| !value.is_empty());
        (Options { store, summary: summary.map(|value: OsString| Destination::parse(&value)) }, problems)
    }

    pub(super) fn chosen() -> (Options, Vec<String>) {
        configured().map_or_else(Options::from_environment, |options| (options, Vec::new()))
    }
}

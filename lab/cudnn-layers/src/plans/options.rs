//! The options of the layer, from the environment or from the program.

use cudnn_store::plans::Settings;

use crate::configured::configured_in_code;

/// Options of the layer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// `CUDNN_PLANS_DIR`, `CUDNN_PLANS_LIMIT` and `CUDNN_PLANS_PACK`: where plans are cached.
    pub store: Settings,
}

configured_in_code!(Options);

impl Options {
    /// Reads the options from the environment. Also returns the problems with invalid values.
    pub fn from_environment() -> (Options, Vec<String>) {
        let (store, problems) = Settings::from_environment();
        (Options { store }, problems)
    }

    pub(super) fn chosen() -> (Options, Vec<String>) {
        configured().map_or_else(Options::from_environment, |options| (options, Vec::new()))
    }
}

//! Where the layer keeps plans, and whether it sums up at exit: chosen by the environment or by the program.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use cudnn_plan_store::Settings;

use crate::report::Destination;

/// What the layer does.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// `CUDNN_PLANS_DIR`, `CUDNN_PLANS_LIMIT` and `CUDNN_PLANS_PACK`: where plans are kept.
    pub store: Settings,
    /// `CUDNN_PLANS_SUMMARY`: a summary when the process exits.
    pub summary: Option<Destination>,
}

static CHOSEN: Mutex<Option<Options>> = Mutex::new(None);

/// Chooses what the layer does when the program adds it, in place of what the environment chooses. It counts if it is
/// called before the layer begins.
pub fn configure(options: Options) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(options);
}

impl Options {
    /// What the environment chooses, and what is wrong with it.
    #[must_use]
    pub fn from_environment() -> (Options, Vec<cudnn_plan_store::Problem>) {
        let (store, problems) = Settings::from_environment();
        let summary = std::env::var_os("CUDNN_PLANS_SUMMARY").filter(|value| !value.is_empty());
        (Options { store, summary: summary.map(|value: OsString| Destination::parse(&value)) }, problems)
    }

    /// What the program has chosen, or what the environment does.
    pub(super) fn chosen() -> (Options, Vec<cudnn_plan_store::Problem>) {
        let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        chosen.map_or_else(Options::from_environment, |options| (options, Vec::new()))
    }
}

//! What the layer has in this process.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_plan_store::{Problem, Settings, Store};
use once_cell::race::OnceBox;

use super::cudnn::Cudnn;
use super::environment;
use super::variables::Variables;
use crate::report::Destination;

/// The layer, once it has begun.
pub(super) struct State {
    pub(super) host: Host,
    pub(super) cudnn: Cudnn,
    /// The variables that plans depend on; `None` if it is not known what cuDNN has read.
    pub(super) variables: Option<Variables>,
    /// Where plans are kept.
    pub(super) settings: Settings,
    /// Where a summary goes when the process exits.
    pub(super) summary: Option<Destination>,
    /// Two threads may both prepare it, and the first to finish wins: a child of a fork must not wait for its parent's.
    pub(super) prepared: OnceBox<Prepared>,
}

/// Set once, when the layer begins.
pub(super) static STATE: OnceLock<State> = OnceLock::new();

/// What is read from files. That may take seconds, and other threads of the program must not wait for it when the layer
/// begins, so it is read for the first plan.
pub(super) struct Prepared {
    outcome: Result<Ready, String>,
    problems: Vec<Problem>,
    is_reported: AtomicBool,
}

/// What it takes to look up and to keep plans.
pub(super) struct Ready {
    pub(super) store: Store,
    /// What all keys begin with.
    pub(super) environment: Vec<u8>,
}

impl State {
    /// `None` if no plan can be looked up or kept. The reason is reported once.
    pub(super) fn ready(&self) -> Option<&Ready> {
        let prepared = self.prepared.get_or_init(|| {
            // No cancellation of the thread may unwind from here.
            let _guard = ThreadStateGuard::new();
            Box::new(self.prepare())
        });
        if !prepared.is_reported.swap(true, Ordering::Relaxed) {
            prepared.problems.iter().for_each(|problem| self.host.error(&problem.to_string()));
            if let Err(reason) = &prepared.outcome {
                self.host.error(&format!("keeps no plans: {reason}"));
            }
        }
        prepared.outcome.as_ref().ok()
    }

    fn prepare(&self) -> Prepared {
        let (store, problems) = Store::open(&self.settings);
        Prepared { outcome: self.describe(store), problems, is_reported: AtomicBool::new(false) }
    }

    fn describe(&self, store: Store) -> Result<Ready, String> {
        if store.dir().is_none() && store.packs().next().is_none() {
            return Err("it has no place for them".into());
        }
        let variables = self.variables.as_ref().ok_or("it is not known what cuDNN has read")?;
        // SAFETY: the bytes are a path of this system.
        let dir = unsafe { std::ffi::OsStr::from_encoded_bytes_unchecked(self.host.cudnn_dir().to_bytes()) };
        let environment = environment::describe(self.host.cudnn_version(), Path::new(dir), variables)?;
        Ok(Ready { store, environment })
    }
}

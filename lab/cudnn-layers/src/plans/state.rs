//! The state of the layer in this process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_store::plans::{Settings, Store};
use once_cell::race::OnceBox;

use super::environment;
use super::variables::Variables;
use crate::active::Active;
use crate::cudnn::Cudnn;

pub(super) struct State {
    pub(super) host: Host,
    pub(super) cudnn: Cudnn,
    /// The variables that plans depend on, or `None` if the values that cuDNN read are unknown.
    pub(super) variables: Option<Variables>,
    pub(super) settings: Settings,
    /// Several threads may prepare this at the same time, and the first result is used. With a lock, a forked child
    /// could wait forever for a thread of the parent.
    pub(super) prepared: OnceBox<Prepared>,
}

pub(super) static STATE: Active<State> = Active::new();

/// Information from files, which is read when the first plan is finalized. Reading can take seconds, during which other
/// threads would have to wait if it happened at startup.
pub(super) struct Prepared {
    outcome: Result<Ready, String>,
    problems: Vec<String>,
    is_reported: AtomicBool,
}

pub(super) struct Ready {
    pub(super) store: Store,
    pub(super) environment: Vec<u8>,
}

impl State {
    /// Returns `None` if plans cannot be cached. The reason is reported once.
    pub(super) fn ready(&self) -> Option<&Ready> {
        let prepared = self.prepared.get_or_init(|| {
            let _guard = ThreadStateGuard::new();
            Box::new(self.prepare())
        });
        if !prepared.is_reported.swap(true, Ordering::Relaxed) {
            prepared.problems.iter().for_each(|problem| self.host.error(problem));
            if let Err(reason) = &prepared.outcome {
                self.host.error(&format!("plans are not cached: {reason}"));
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
            return Err("no directory or pack is available".into());
        }
        let variables = self.variables.as_ref().ok_or("the environment at load time is unknown")?;
        // SAFETY: the bytes are a path of this system.
        let dir = unsafe { std::ffi::OsStr::from_encoded_bytes_unchecked(self.host.cudnn_dir().to_bytes()) };
        let environment = environment::describe(self.host.cudnn_version(), Path::new(dir), variables)?;
        Ok(Ready { store, environment })
    }
}

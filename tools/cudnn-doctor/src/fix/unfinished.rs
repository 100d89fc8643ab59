//! Finds steps that are still running or were interrupted.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cudnn_os::rights::others_may_write;
use cudnn_probe::canonicalize;
use cudnn_probe::facts::ask;

use super::journal;
use super::snapshot::Snapshot;
use super::undo_dir::{self, NAME};
use crate::escape::Printable;

/// The state of an earlier step that left a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    Running,
    Interrupted,
    /// The journal cannot be used, for this reason.
    Unusable(String),
}

/// An earlier step that is still running or was interrupted.
pub(crate) struct Unfinished {
    pub(crate) root: PathBuf,
    /// A short description of the step.
    pub(crate) step: String,
}

/// Returns the state of the earlier step that left a journal in the environment at this root, if any.
pub(crate) fn earlier_step(root: &Path) -> Option<Earlier> {
    const RUNNING: &str = "running";
    const INTERRUPTED: &str = "interrupted";
    let state = ask("earlier step", root, || match journal::read(root) {
        None => String::new(),
        Some(_) if undo_dir::is_locked(&root.join(NAME)) => RUNNING.to_owned(),
        Some(Ok(_)) => INTERRUPTED.to_owned(),
        Some(Err(reason)) => reason,
    });
    match state.as_str() {
        "" => None,
        RUNNING => Some(Earlier::Running),
        INTERRUPTED => Some(Earlier::Interrupted),
        _ => Some(Earlier::Unusable(state)),
    }
}

/// Finds unfinished steps in the environments at these roots. An error is the reason why a journal cannot be used.
pub(crate) fn unfinished(roots: impl IntoIterator<Item = PathBuf>) -> Vec<std::result::Result<Unfinished, String>> {
    let roots: BTreeSet<PathBuf> = roots.into_iter().filter_map(|root| canonicalize(root).ok()).collect();
    let step = |root: PathBuf| Some(journal::read(&root)?.map(|journal| Unfinished { step: journal.step, root }));
    roots.into_iter().filter_map(step).collect()
}

/// Removes unneeded snapshots that a killed doctor left in these environments.
pub(crate) fn clear(roots: impl IntoIterator<Item = PathBuf>) {
    // Errors are ignored here. If a snapshot blocks a later step, that step reports the reason.
    roots.into_iter().for_each(|root| drop(undo_dir::clear_incomplete(&root)));
}

impl Unfinished {
    pub(crate) fn is_running(&self) -> bool {
        undo_dir::is_locked(&self.root.join(NAME))
    }

    /// Locks the snapshot. While the installer is still running, calls `waiting` once and waits for up to a minute.
    /// Returns `None` if another process has completed or undone the step.
    ///
    /// # Errors
    /// The installer is still running, the snapshot cannot be trusted, or it cannot be locked.
    pub(crate) fn lock(&self, waiting: &dyn Fn()) -> Result<Option<Snapshot>> {
        const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
        const INTERVAL: Duration = Duration::from_millis(100);
        let Unfinished { root, .. } = self;
        if others_may_write(root) {
            let root = root.printable();
            return Err(Error::other(format!(
                "users other than the owner can write to {root}, so the saved files may not be genuine: if you trust \
                 them, run `chmod go-w {root}` first"
            )));
        }
        let start = Instant::now();
        let mut has_waited = false;
        let lock = loop {
            match undo_dir::lock(&root.join(NAME)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && start.elapsed() < LOCK_TIMEOUT => {
                    if !std::mem::replace(&mut has_waited, true) {
                        waiting();
                    }
                    std::thread::sleep(INTERVAL);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                result => break result?,
            }
        };
        // Another doctor may have replaced the journal since it was first read.
        let journal = journal::read(root).transpose().map_err(Error::other)?;
        Ok(journal.map(|journal| Snapshot { root: root.clone(), journal, lock }))
    }
}

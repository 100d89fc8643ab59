//! Sections of code that forks and exits wait for. All waiting has a limit, and nobody waits for itself or for threads of
//! the parent process.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::LocalKey;
use std::time::Duration;

use cudnn_os::cancel::ThreadStateGuard;

use crate::sync::gate::Gate;
use crate::sync::primitives::Backoff;

/// Sections of one kind.
pub(crate) struct Sections {
    gate: Gate,
    /// Whether this thread is in a section.
    is_inside: &'static LocalKey<Cell<bool>>,
    limit: Duration,
    /// The process that the gate's state belongs to.
    process: AtomicU32,
}

impl Sections {
    pub(crate) const fn new(is_inside: &'static LocalKey<Cell<bool>>, limit: Duration) -> Self {
        Sections { gate: Gate::new(), is_inside, limit, process: AtomicU32::new(0) }
    }

    /// Must be called when the fork handlers are registered.
    pub(crate) fn start(&self) {
        self.process.store(std::process::id(), Ordering::SeqCst);
    }

    /// Enters a section once no fork or exit is in progress, or after the limit. Returns `None` if `gives_up` returns
    /// `true` while this thread waits, and otherwise whether it entered in time.
    pub(crate) fn enter(&self, gives_up: impl Fn() -> bool) -> Option<bool> {
        let (mut backoff, mut is_in_time) = (Backoff::with_limit(self.limit), true);
        while !self.gate.try_enter() {
            if gives_up() {
                return None;
            }
            if !backoff.wait() {
                self.gate.enter_anyway();
                is_in_time = false;
                break;
            }
        }
        self.is_inside.set(true);
        Some(is_in_time)
    }

    /// Leaves the section that this thread is in.
    pub(crate) fn leave(&self) {
        self.is_inside.set(false);
        self.gate.leave();
    }

    /// Keeps threads from entering until [`open`](Sections::open) is called as often.
    pub(crate) fn close(&self) {
        self.gate.close();
    }

    pub(crate) fn open(&self) {
        self.gate.open();
    }

    /// Waits until no other thread is in a section. Returns `false` after the limit.
    pub(crate) fn wait_until_empty(&self) -> bool {
        let is_empty = || {
            // Fork handlers do not run in a child of `vfork` or `clone`.
            self.gate.inside() <= self.own() || self.process.load(Ordering::SeqCst) != std::process::id()
        };
        if is_empty() {
            return true;
        }
        let _guard = ThreadStateGuard::new();
        let mut backoff = Backoff::with_limit(self.limit);
        while backoff.wait() {
            if is_empty() {
                return true;
            }
        }
        false
    }

    /// Resets the state in a forked child, which has only this thread.
    pub(crate) fn reset_in_child(&self) {
        self.start();
        self.gate.reset(self.own());
    }

    /// Returns the number of sections that this thread is in.
    fn own(&self) -> u64 {
        u64::from(self.is_inside.get())
    }
}

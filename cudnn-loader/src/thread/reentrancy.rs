//! Prevents a thread from restarting work that it is already doing.

use std::cell::Cell;
use std::thread::LocalKey;

/// Marks this thread as busy while the guard exists. The flag identifies the kind of work.
pub(crate) struct ReentrancyGuard(&'static LocalKey<Cell<bool>>);

impl ReentrancyGuard {
    /// Returns `None` if this thread is already busy with this work or is exiting.
    pub(crate) fn enter(flag: &'static LocalKey<Cell<bool>>) -> Option<Self> {
        let is_busy = flag.try_with(|is_busy| is_busy.replace(true)).unwrap_or(true);
        (!is_busy).then_some(ReentrancyGuard(flag))
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        let _ = self.0.try_with(|is_busy| is_busy.set(false));
    }
}

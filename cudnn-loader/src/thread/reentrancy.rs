//! Work that a thread must not start again while it is in the middle of it.

use std::cell::Cell;
use std::thread::LocalKey;

/// Marks this thread as busy with the work that the flag stands for, as long as the guard lives.
pub(crate) struct ReentrancyGuard(&'static LocalKey<Cell<bool>>);

impl ReentrancyGuard {
    /// `None` if this thread is busy with it already, or is ending.
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

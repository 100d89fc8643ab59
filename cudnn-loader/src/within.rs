//! A thread that is in the middle of something, and not to begin it again.

use std::cell::Cell;
use std::thread::LocalKey;

/// For as long as it lives, this thread is within what the flag stands for.
pub(crate) struct ReentrancyGuard(&'static LocalKey<Cell<bool>>);

impl ReentrancyGuard {
    /// None where the thread is within it already, or is ending.
    pub(crate) fn enter(flag: &'static LocalKey<Cell<bool>>) -> Option<Self> {
        let is_within = flag.try_with(|is| is.replace(true)).unwrap_or(true);
        (!is_within).then_some(ReentrancyGuard(flag))
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        let _ = self.0.try_with(|is| is.set(false));
    }
}

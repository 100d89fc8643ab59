//! A thread that is in the middle of something, and not to begin it again.

use std::cell::Cell;
use std::thread::LocalKey;

/// For as long as it lives, this thread is within what the flag stands for.
pub(crate) struct Within(&'static LocalKey<Cell<bool>>);

impl Within {
    /// None where the thread is within it already, or is ending.
    pub(crate) fn begin(flag: &'static LocalKey<Cell<bool>>) -> Option<Self> {
        let is_within = flag.try_with(|is| is.replace(true)).unwrap_or(true);
        (!is_within).then_some(Within(flag))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = self.0.try_with(|is| is.set(false));
    }
}

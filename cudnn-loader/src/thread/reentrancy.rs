//! Prevents a thread from restarting work that it is already doing.

use std::cell::Cell;
use std::thread::LocalKey;

/// Marks this thread as busy while the guard exists. The flag identifies the kind of work.
pub(crate) struct ReentrancyGuard(&'static LocalKey<Cell<bool>>);

impl ReentrancyGuard {
    /// Returns `None` if this thread is already busy with this work or is exiting.
    pub(crate) fn enter(flag: &'static LocalKey<Cell<bool>>) -> Option<Self> {
        let is_busy = flag.try_with(|is_busy| is_busy.replace(true)).unwrap_or(true);
        // An unused guard would reset the flag when it is dropped.
        (!is_busy).then(|| ReentrancyGuard(flag))
    }
}

impl Drop for ReentrancyGuard {
    fn drop(&mut self) {
        let _ = self.0.try_with(|is_busy| is_busy.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn a_busy_thread_stays_busy_when_it_tries_again() {
        let guard = ReentrancyGuard::enter(&IS_BUSY);
        for _ in 0..2 {
            assert!(ReentrancyGuard::enter(&IS_BUSY).is_none());
        }
        drop(guard);
        assert!(ReentrancyGuard::enter(&IS_BUSY).is_some());
    }
}

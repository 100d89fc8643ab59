//! Marks the calls that a layer itself makes, so that other layers do not cache, check or record them.

use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static IS_IN_OTHER_ORDER: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    let _end = set(&IS_RUNNING);
    work()
}

/// Runs calls that read proposals in a different order than the program receives.
pub(crate) fn run_in_other_order<T>(work: impl FnOnce() -> T) -> T {
    let _end = set(&IS_IN_OTHER_ORDER);
    work()
}

fn set(mark: &'static LocalKey<Cell<bool>>) -> End {
    End { mark, was_set: mark.try_with(|mark| mark.replace(true)).unwrap_or(false) }
}

/// Restores the mark, even if an exception of the program's callback leaves cuDNN.
struct End {
    mark: &'static LocalKey<Cell<bool>>,
    was_set: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.mark.try_with(|mark| mark.set(self.was_set));
    }
}

/// Returns whether a layer on this thread makes such calls.
pub(crate) fn is_running() -> bool {
    IS_RUNNING.try_with(Cell::get).unwrap_or(false)
}

/// Returns whether a layer on this thread reads proposals in a different order than the program receives.
pub(crate) fn is_in_other_order() -> bool {
    IS_IN_OTHER_ORDER.try_with(Cell::get).unwrap_or(false)
}

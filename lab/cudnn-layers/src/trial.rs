//! Marks the calls that a layer itself makes, so that other layers neither cache nor check nor record them.

use std::cell::Cell;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the calls of a layer.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    let _end = End { was_running: IS_RUNNING.try_with(|running| running.replace(true)).unwrap_or(false) };
    work()
}

/// Ends the trial, also if an exception of the program's callback leaves cuDNN.
struct End {
    was_running: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = IS_RUNNING.try_with(|running| running.set(self.was_running));
    }
}

/// Returns whether a layer on this thread makes such calls.
pub(crate) fn is_running() -> bool {
    IS_RUNNING.try_with(Cell::get).unwrap_or(false)
}

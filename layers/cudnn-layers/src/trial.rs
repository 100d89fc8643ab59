//! Marks the calls that a layer makes to try engines, so that other layers neither cache nor check their plans.

use std::cell::Cell;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the calls of a layer.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    let _ = IS_RUNNING.try_with(|running| running.set(true));
    let _end = End;
    work()
}

/// Ends the trial, also if an exception of the program's callback leaves cuDNN.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let _ = IS_RUNNING.try_with(|running| running.set(false));
    }
}

/// Returns whether a layer on this thread makes such calls.
pub(crate) fn is_running() -> bool {
    IS_RUNNING.try_with(Cell::get).unwrap_or(false)
}

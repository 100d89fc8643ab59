//! Marks the calls that a layer makes to try engines, so that other layers neither cache nor check their plans.

use std::cell::Cell;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the calls of a layer. Exceptions of the program's callbacks must not leave them.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    let _ = IS_RUNNING.try_with(|running| running.set(true));
    let result = work();
    let _ = IS_RUNNING.try_with(|running| running.set(false));
    result
}

/// Returns whether a layer on this thread makes such calls.
pub(crate) fn is_running() -> bool {
    IS_RUNNING.try_with(Cell::get).unwrap_or(false)
}

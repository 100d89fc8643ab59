//! A thread of the store's.

use super::unnoticed::with_signals_blocked;

/// Starts a thread for which nobody waits. None of the program's signal handlers runs in it. Returns whether it started.
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
    with_signals_blocked(|| builder.spawn(work)).is_ok()
}

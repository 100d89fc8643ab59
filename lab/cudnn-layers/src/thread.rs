//! Numbers threads, because a thread-local value with a destructor would take ld.so's lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the number of this thread, which is unique in this process.
pub(crate) fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    let numbered = NUMBER.try_with(|number| {
        if number.get() == 0 {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    });
    numbered.unwrap_or(0)
}

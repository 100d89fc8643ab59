//! The place that a function's address lives in. Starts at the function's resolver, ends at cuDNN's own function, and
//! is changed at most from the one to the other.

use crate::sync::{AtomicPtr, Ordering};

/// One function's address.
pub(crate) struct Slot(pub(crate) AtomicPtr<()>);

impl Slot {
    /// Where a call goes now.
    ///
    /// Acquire, as std's own lazily resolved symbols have it: whoever sees the address also sees all that the thread
    /// that stored it saw, above all the library's relocated code and data. On x86-64 it costs nothing.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut () {
        self.0.load(Ordering::Acquire)
    }

    /// Makes calls go to cuDNN's function from now on. Threads that race here all store the same address.
    pub(crate) fn set(&self, address: *mut ()) {
        self.0.store(address, Ordering::Release);
    }
}

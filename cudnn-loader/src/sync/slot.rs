//! The cell with a function's address: first that of its resolver, then that of cuDNN's function. It changes at
//! most once.

use super::primitives::{AtomicPtr, Ordering};

/// One function's address.
pub(crate) struct Slot(AtomicPtr<()>);

impl Slot {
    /// A slot that leads to the function's resolver.
    #[cfg(not(loom))]
    pub(crate) const fn new(resolver: *mut ()) -> Self {
        Slot(AtomicPtr::new(resolver))
    }

    /// loom's atomics are no constants.
    #[cfg(loom)]
    pub(crate) fn new(resolver: *mut ()) -> Self {
        Slot(AtomicPtr::new(resolver))
    }

    /// The address that a call jumps to now.
    ///
    /// Acquire, as for std's lazily resolved symbols: a thread that sees the address also sees all that the storing
    /// thread saw, including the library's relocated code and data. On x86-64 it is free.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut () {
        self.0.load(Ordering::Acquire)
    }

    /// Sends all later calls to this address. Threads that race here store the same one.
    pub(crate) fn set(&self, address: *mut ()) {
        self.0.store(address, Ordering::Release);
    }
}

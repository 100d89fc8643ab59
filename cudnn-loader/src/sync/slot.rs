//! Provides the cell that holds a function's address. It first contains the resolver's address, then cuDNN's function,
//! and changes at most once.

use super::primitives::{AtomicPtr, Ordering};

/// The address of a function.
pub(crate) struct Slot(AtomicPtr<()>);

impl Slot {
    /// Creates a slot that contains the function's resolver.
    #[cfg(not(loom))]
    pub(crate) const fn new(resolver: *mut ()) -> Self {
        Slot(AtomicPtr::new(resolver))
    }

    /// Loom's atomics have no const constructor.
    #[cfg(loom)]
    pub(crate) fn new(resolver: *mut ()) -> Self {
        Slot(AtomicPtr::new(resolver))
    }

    /// Returns the current address.
    ///
    /// Acquire, as for std's lazily resolved symbols: a thread that sees the address also sees everything that the
    /// storing thread saw, including the library's relocated code and data. On x86-64, Acquire is free.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut () {
        self.0.load(Ordering::Acquire)
    }

    /// Redirects all later calls to this address. Threads that race here store the same address.
    pub(crate) fn set(&self, address: *mut ()) {
        self.0.store(address, Ordering::Release);
    }
}

//! Remembers the addresses of destroyed descriptors that were not created again.
//!
//! The record has a fixed size, so that old addresses are forgotten.

use crate::lock::Lock;
use crate::shadow::elements::{Kind, Raw};

const PLACES: usize = 1024;

/// An address and the kind of the descriptor that was there.
type Place = Option<(usize, Kind)>;

static TABLE: Lock<[Place; PLACES]> = Lock::new([None; PLACES]);

fn with<R>(address: usize, section: impl FnOnce(&mut Place) -> R) -> Option<R> {
    let index = ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES;
    let mut table = TABLE.lock()?;
    // A thread that failed to take the lock may have missed that the address was created again.
    if TABLE.take_missed() {
        *table = [None; PLACES];
    }
    table.get_mut(index).map(section)
}

/// A descriptor that is being destroyed. It counts as destroyed before the call, because another thread may get a new
/// descriptor at the address before this thread continues. If the call does not succeed, the descriptor is alive again.
pub(super) struct Destroying {
    address: usize,
    is_done: bool,
}

impl Destroying {
    pub(super) fn new(descriptor: Raw, kind: Kind) -> Self {
        let address = descriptor.addr();
        with(address, |place| *place = Some((address, kind)));
        Destroying { address, is_done: false }
    }

    pub(super) fn succeeded(mut self) {
        self.is_done = true;
    }
}

impl Drop for Destroying {
    /// An exception of the program's callbacks may unwind through the call.
    fn drop(&mut self) {
        if !self.is_done {
            revived(self.address);
        }
    }
}

/// Call this when a descriptor at this address was created.
pub(super) fn revived(address: usize) {
    with(address, |place| {
        if place.is_some_and(|(known, _)| known == address) {
            *place = None;
        }
    });
}

/// Returns the kind of the destroyed descriptor at this address.
pub(super) fn destroyed(descriptor: Raw) -> Option<Kind> {
    let address = descriptor.addr();
    with(address, |place| place.filter(|(known, _)| *known == address).map(|(_, kind)| kind)).flatten()
}

pub(super) fn before_fork() {
    TABLE.hold_for_fork();
}

pub(super) fn after_fork() {
    TABLE.release_after_fork();
}

pub(super) fn in_child() {
    TABLE.release_in_child([None; PLACES]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR;

    #[test]
    fn an_address_is_known_until_it_is_created_again() {
        let at = |address| std::ptr::without_provenance_mut(address);
        let first: Raw = at(0x10_0000);
        assert_eq!(destroyed(first), None);
        Destroying::new(first, KIND).succeeded();
        assert_eq!(destroyed(first), Some(KIND));
        revived(first.addr());
        assert_eq!(destroyed(first), None);
        // The call has failed, or an exception has left it.
        drop(Destroying::new(first, KIND));
        assert_eq!(destroyed(first), None);
        // The record does not grow.
        for address in 1..10_000 {
            Destroying::new(at(0x20_0000 + address * 16), KIND).succeeded();
        }
        assert_eq!(destroyed(at(0x20_0000 + 9_999 * 16)), Some(KIND));
    }
}

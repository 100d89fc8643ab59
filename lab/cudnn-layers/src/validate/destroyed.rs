//! Stores the addresses of destroyed descriptors that were not created again, up to a limit.

use crate::shadow::elements::{Kind, Raw};
use crate::table::Table;

/// The kinds of the descriptors that were at these addresses.
pub(super) static TABLE: Table<Kind> = Table::new(4096);

/// A descriptor that is being destroyed. It counts as destroyed before the call, because another thread may get a new
/// descriptor at the address before this thread continues. If the call fails, the descriptor is alive again.
pub(super) struct Destroying {
    address: usize,
    is_done: bool,
}

impl Destroying {
    pub(super) fn new(descriptor: Raw, kind: Kind) -> Self {
        let address = descriptor.addr();
        TABLE.insert(address, kind);
        Destroying { address, is_done: false }
    }

    pub(super) fn succeeded(mut self) {
        self.is_done = true;
    }
}

impl Drop for Destroying {
    /// An exception of the program's callback may unwind through the call.
    fn drop(&mut self) {
        if !self.is_done {
            revived(self.address);
        }
    }
}

pub(super) fn revived(address: usize) {
    TABLE.remove(address);
}

pub(super) fn destroyed(descriptor: Raw) -> Option<Kind> {
    TABLE.get(descriptor.addr())
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
        for address in 1..10_000 {
            Destroying::new(at(0x20_0000 + address * 16), KIND).succeeded();
        }
        assert_eq!(destroyed(at(0x20_0000 + 9_999 * 16)), Some(KIND));
    }
}

//! Tracks live cuDNN handles. They have unique IDs, because addresses are reused, possibly for a different device.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::Table;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    pub(crate) address: usize,
    /// 0 if the creation bypassed the layers.
    pub(crate) id: u64,
}

impl Handle {
    /// The size of a handle in a stored attribute.
    pub(super) const SIZE: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Handle::SIZE] {
        (self.address as u128 | u128::from(self.id) << 64).to_ne_bytes()
    }

    pub(crate) fn all_in(bytes: &[u8]) -> impl Iterator<Item = Handle> {
        bytes.chunks_exact(Handle::SIZE).filter_map(|bytes| {
            let both = u128::from_ne_bytes(bytes.try_into().ok()?);
            Some(Handle { address: both as usize, id: (both >> 64) as u64 })
        })
    }
}

pub(super) static HANDLES: Table<u64> = Table::new(usize::MAX);

/// Call this when `cudnnCreate` has returned a handle. A previous handle at this address was destroyed unnoticed.
pub(crate) fn created(address: usize) {
    static LAST_ID: AtomicU64 = AtomicU64::new(0);
    HANDLES.insert(address, LAST_ID.fetch_add(1, Ordering::Relaxed) + 1);
}

pub(crate) fn destroying(address: usize) {
    HANDLES.remove(address);
}

pub(crate) fn living(address: usize) -> Handle {
    Handle { address, id: HANDLES.get(address).unwrap_or(0) }
}

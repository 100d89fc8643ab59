//! Tracks live cuDNN handles. Addresses are reused, possibly for a different device, so handles also get a unique ID.

use std::collections::HashMap;

use crate::lock::Lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    /// cuDNN's pointer.
    pub(crate) address: usize,
    /// 0 if the creation of the handle was not seen.
    pub(crate) id: u64,
}

impl Handle {
    /// The size of a handle in a stored attribute.
    pub(super) const SIZE: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Handle::SIZE] {
        (self.address as u128 | u128::from(self.id) << 64).to_ne_bytes()
    }

    /// Returns the handles in a stored attribute of this type.
    pub(crate) fn all_in(bytes: &[u8]) -> impl Iterator<Item = Handle> {
        bytes.chunks_exact(Handle::SIZE).filter_map(|bytes| {
            let both = u128::from_ne_bytes(bytes.try_into().ok()?);
            Some(Handle { address: both as usize, id: (both >> 64) as u64 })
        })
    }
}

#[derive(Default)]
pub(super) struct Handles {
    ids: Option<HashMap<usize, u64>>,
    last_id: u64,
}

impl Handles {
    pub(super) const EMPTY: Handles = Handles { ids: None, last_id: 0 };
}

pub(super) static HANDLES: Lock<Handles> = Lock::new(Handles::EMPTY);

/// Call this when `cudnnCreate` has returned a handle. A previous handle at this address was destroyed without a
/// report.
pub(crate) fn created(address: usize) {
    if let Some(mut handles) = HANDLES.lock() {
        handles.last_id += 1;
        let id = handles.last_id;
        handles.ids.get_or_insert_default().insert(address, id);
    }
}

/// Call this before `cudnnDestroy`.
pub(crate) fn destroying(address: usize) {
    let _id = HANDLES.lock().and_then(|mut handles| handles.ids.as_mut()?.remove(&address));
}

/// Returns the live handle at this address.
pub(crate) fn living(address: usize) -> Handle {
    // A thread that failed to take the lock may have missed a handle, which makes the table unreliable.
    let id = HANDLES.lock().filter(|_| !HANDLES.was_missed());
    Handle { address, id: id.and_then(|handles| handles.ids.as_ref()?.get(&address).copied()).unwrap_or(0) }
}

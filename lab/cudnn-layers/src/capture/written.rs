//! Remembers which records are written, so that each one is written once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::fork::AtFork;
use crate::lock::Lock;

/// The records of one kind, by a hash of their content.
pub(super) struct WrittenRecords(Lock<Option<BTreeMap<u64, Known>>>);

#[derive(Clone, Copy)]
struct Known {
    ordinal: usize,
    is_written: bool,
}

/// More records than any program needs. Further ones are not written.
const MAX_RECORDS: usize = 1 << 18;

impl WrittenRecords {
    pub(super) const fn new() -> Self {
        WrittenRecords(Lock::keeping(None))
    }

    /// A forked child writes another file.
    pub(super) const fn at_fork(&'static self) -> AtFork {
        AtFork::Emptied(&self.0)
    }

    /// Writes a record with its ordinal, unless an equal one was written. `write` returns whether it succeeded. Returns
    /// the ordinal.
    ///
    /// Two threads may write the same record. However, when this returns, the record precedes all later ones of this
    /// thread.
    pub(super) fn write(&self, content: &impl Hash, write: impl FnOnce(usize) -> bool) -> Option<usize> {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let key = hasher.finish();
        let known = {
            let mut all = self.0.lock()?;
            let all = all.get_or_insert_default();
            let ordinal = all.len();
            if ordinal >= MAX_RECORDS && !all.contains_key(&key) {
                return None;
            }
            *all.entry(key).or_insert(Known { ordinal, is_written: false })
        };
        if !known.is_written
            && write(known.ordinal)
            && let Some(known) = self.0.lock()?.as_mut()?.get_mut(&key)
        {
            known.is_written = true;
        }
        Some(known.ordinal)
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> usize {
        self.0.lock().and_then(|all| all.as_ref().map(BTreeMap::len)).unwrap_or(0)
    }
}

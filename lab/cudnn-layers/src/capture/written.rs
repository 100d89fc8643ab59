//! Remembers which records are written, so that each one is written once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::fork::AtFork;
use crate::lock::Lock;

/// The records of one kind, by a hash of their content.
pub(super) struct WrittenRecords {
    known: Lock<Option<BTreeMap<u64, Known>>>,
    max: usize,
}

#[derive(Clone, Copy)]
struct Known {
    ordinal: usize,
    is_written: bool,
}

/// More records than any program needs. Further ones are not written.
const MAX_RECORDS: usize = 1 << 18;

impl WrittenRecords {
    pub(super) const fn new() -> Self {
        Self::at_most(MAX_RECORDS)
    }

    /// Writes no more than `max` different records.
    pub(super) const fn at_most(max: usize) -> Self {
        WrittenRecords { known: Lock::keeping(None), max }
    }

    /// A forked child writes another file.
    pub(super) const fn at_fork(&'static self) -> AtFork {
        AtFork::Emptied(&self.known)
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
            let mut all = self.known.lock()?;
            let all = all.get_or_insert_default();
            let ordinal = all.len();
            if ordinal >= self.max && !all.contains_key(&key) {
                return None;
            }
            *all.entry(key).or_insert(Known { ordinal, is_written: false })
        };
        if !known.is_written
            && write(known.ordinal)
            && let Some(known) = self.known.lock()?.as_mut()?.get_mut(&key)
        {
            known.is_written = true;
        }
        Some(known.ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::WrittenRecords;

    #[test]
    fn records_beyond_the_limit_are_refused_but_known_ones_are_not() {
        let records = WrittenRecords::at_most(2);
        let ordinals = ["a", "b", "a", "c", "b"].map(|content| records.write(&content, |_| true));
        assert_eq!(ordinals, [Some(0), Some(1), Some(0), None, Some(1)]);
    }
}

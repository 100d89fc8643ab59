//! Tracks written records and messages, to avoid duplicates.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::lock::{HeldAtFork, Lock};

/// The records or messages of one kind, by a hash of their content.
pub(crate) struct WrittenRecords {
    known: Lock<BTreeMap<u64, Known>>,
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
    pub(crate) const fn new() -> Self {
        Self::at_most(MAX_RECORDS)
    }

    pub(crate) const fn at_most(max: usize) -> Self {
        WrittenRecords { known: Lock::keeping(BTreeMap::new()), max }
    }

    pub(crate) const fn lock(&'static self) -> &'static dyn HeldAtFork {
        &self.known
    }

    /// Returns the ordinal of new content, unless the limit is reached.
    pub(crate) fn add(&self, content: &impl Hash) -> Option<usize> {
        let key = hash(content);
        let mut all = self.known.lock()?;
        let ordinal = all.len();
        match all.entry(key) {
            Entry::Vacant(new) if ordinal < self.max => Some(new.insert(Known { ordinal, is_written: true }).ordinal),
            _ => None,
        }
    }

    /// Returns whether no content is new any more.
    pub(crate) fn is_full(&self) -> bool {
        self.known.lock().is_some_and(|all| all.len() >= self.max)
    }

    /// Writes a record with its ordinal, unless an equal one was written. `write` returns whether it succeeded. Returns
    /// the ordinal.
    ///
    /// Two threads may write the same record. However, when this returns, the record precedes all later ones of this
    /// thread.
    pub(crate) fn write(&self, content: &impl Hash, write: impl FnOnce(usize) -> bool) -> Option<usize> {
        let key = hash(content);
        let known = {
            let mut all = self.known.lock()?;
            let ordinal = all.len();
            if ordinal >= self.max && !all.contains_key(&key) {
                return None;
            }
            *all.entry(key).or_insert(Known { ordinal, is_written: false })
        };
        if !known.is_written
            && write(known.ordinal)
            && let Some(mut all) = self.known.lock()
            && let Some(known) = all.get_mut(&key)
        {
            known.is_written = true;
        }
        Some(known.ordinal)
    }
}

/// Returns a hash of a value.
pub(crate) fn hash(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::WrittenRecords;

    #[test]
    fn records_beyond_the_limit_are_refused_but_known_ones_are_not() {
        let records = WrittenRecords::at_most(2);
        let ordinals = ["a", "b", "a", "c", "b"].map(|content| records.write(&content, |_| true));
        assert_eq!(ordinals, [Some(0), Some(1), Some(0), None, Some(1)]);
        assert!(records.is_full() && !WrittenRecords::new().is_full());
    }
}

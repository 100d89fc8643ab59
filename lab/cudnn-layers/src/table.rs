//! Maps addresses of the program's descriptors and handles to the data of a layer.
//!
//! Only code in this file and short closures run while a lock is held. Values are dropped after the lock is released.

#[expect(clippy::disallowed_types, reason = "with a hasher that needs no random seed")]
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::lock::{HeldAtFork, Lock};

/// The values with addresses in the same part of a table.
#[expect(clippy::disallowed_types, reason = "as above")]
pub(crate) type Entries<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;

/// A table in parts with separate locks, about as many as threads that use it at the same time. A part is emptied if a
/// thread has missed an update, or if it exceeds the limit.
pub(crate) struct Table<V, const PARTS: usize = 1> {
    parts: [Part<V>; PARTS],
    limit: usize,
}

/// Avoids false sharing between parts.
#[repr(align(128))]
struct Part<V>(Lock<Entries<V>>);

impl<V, const PARTS: usize> Table<V, PARTS> {
    /// Returns an empty table. Each part has room for `limit` values.
    pub(crate) const fn new(limit: usize) -> Self {
        Table { parts: [const { Part(Lock::new(Entries::with_hasher(BuildHasherDefault::new()))) }; PARTS], limit }
    }

    /// Runs a closure with the part of the table for this address, or returns `None` on timeout. The closure should
    /// return removed values, so that they are dropped after the lock is released.
    #[inline]
    pub(crate) fn with<R>(&self, address: usize, section: impl FnOnce(&mut Entries<V>) -> R) -> Option<R> {
        let part = self.parts.get((spread(address) >> 32) as usize % PARTS)?;
        let mut entries = part.0.lock()?;
        let result = section(&mut entries);
        drop(entries);
        Some(result)
    }

    #[inline]
    pub(crate) fn with_value<R>(&self, address: usize, section: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.with(address, |entries| entries.get_mut(&address).map(section)).flatten()
    }

    pub(crate) fn insert(&self, address: usize, value: V) -> Option<V> {
        let (former, _full) = self.with(address, |entries| {
            let is_full = entries.len() >= self.limit && !entries.contains_key(&address);
            let full = is_full.then(|| std::mem::take(entries));
            (entries.insert(address, value), full)
        })?;
        former
    }

    pub(crate) fn remove(&self, address: usize) -> Option<V> {
        self.remove_if(address, |_| true)
    }

    pub(crate) fn remove_if(&self, address: usize, is_removed: impl FnOnce(&V) -> bool) -> Option<V> {
        self.with(address, |entries| {
            entries.get(&address).is_some_and(is_removed).then_some(())?;
            let removed = entries.remove(&address);
            // Release memory after a peak.
            if entries.capacity() > 256 && entries.len() < entries.capacity() / 16 {
                entries.shrink_to(entries.capacity() / 4);
            }
            removed
        })
        .flatten()
    }

    pub(crate) fn get(&self, address: usize) -> Option<V>
    where
        V: Clone,
    {
        self.with_value(address, |value| value.clone())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().filter_map(|part| Some(part.0.lock()?.len())).sum()
    }
}

impl<V: Send, const PARTS: usize> HeldAtFork for Table<V, PARTS> {
    fn hold(&self) {
        self.parts.iter().for_each(|part| part.0.hold());
    }

    fn release(&self) {
        self.parts.iter().for_each(|part| part.0.release());
    }

    fn release_in_child(&self) {
        self.parts.iter().for_each(|part| part.0.release_in_child());
    }

    fn leak_in_child(&self) {
        self.parts.iter().for_each(|part| part.0.leak_in_child());
    }
}

/// Mixes all bits, because addresses are multiples of at least 16.
#[inline]
fn spread(address: usize) -> u64 {
    (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let hash = spread(address);
        // The standard library's hash table uses the lowest and the highest bits.
        self.0 = hash ^ (hash >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_destruction_that_was_missed_leaves_no_value_at_the_address() {
        let table: Table<&str> = Table::new(8);
        table.insert(16, "destroyed");
        let (is_inside, leave) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                table.with(32, |_| {
                    is_inside.store(true, Ordering::Release);
                    while !leave.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                });
            });
            while !is_inside.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert_eq!(table.remove(16), None);
            leave.store(true, Ordering::Release);
        });
        assert_eq!((table.get(16), table.len()), (None, 0));
        table.insert(16, "created");
        assert_eq!(table.get(16), Some("created"));
    }

    #[test]
    fn a_full_table_is_emptied() {
        let table: Table<usize> = Table::new(2);
        for address in 0..2 {
            table.insert(address, address);
        }
        assert_eq!((table.insert(1, 7), table.len()), (Some(1), 2));
        table.insert(2, 2);
        assert_eq!((table.get(1), table.get(2), table.len()), (None, Some(2), 1));
    }
}

//! Tracks the stream of each handle by following `cudnnCreate`, `cudnnSetStream` and `cudnnDestroy`.
//!
//! The table has a fixed size. If it is full, the streams of additional handles are unknown.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of handles with the same hash that fit in the table.
const WAYS: usize = 8;
const SETS: usize = 64;

pub(super) struct Streams([[Entry; WAYS]; SETS]);

/// A handle with its stream. The values 0 and 1 are never valid handle addresses.
struct Entry {
    handle: AtomicUsize,
    stream: AtomicUsize,
}

const FREE: usize = 0;

impl Streams {
    pub(super) const fn new() -> Self {
        Streams(
            [const { [const { Entry { handle: AtomicUsize::new(FREE), stream: AtomicUsize::new(0) } }; WAYS] }; SETS],
        )
    }

    fn set(&self, handle: usize) -> &[Entry] {
        let hash = (handle >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.0.get(hash % SETS).map_or(&[], |set| set)
    }

    fn entry(&self, handle: usize) -> Option<&Entry> {
        self.set(handle).iter().find(|entry| entry.handle.load(Ordering::Acquire) == handle)
    }

    /// Sets the stream of a handle.
    pub(super) fn insert(&self, handle: usize, stream: usize) {
        if handle == FREE {
            return;
        }
        if let Some(entry) = self.entry(handle) {
            entry.stream.store(stream, Ordering::Release);
            return;
        }
        for entry in self.set(handle) {
            let claimed = entry.handle.compare_exchange(FREE, handle, Ordering::AcqRel, Ordering::Relaxed);
            if claimed.is_ok() {
                entry.stream.store(stream, Ordering::Release);
                return;
            }
        }
    }

    /// Removes a destroyed handle.
    pub(super) fn remove(&self, handle: usize) {
        if let Some(entry) = self.entry(handle).filter(|_| handle != FREE) {
            entry.handle.store(FREE, Ordering::Release);
        }
    }

    /// Returns the stream of a handle, if it is known.
    #[inline]
    pub(super) fn get(&self, handle: usize) -> Option<usize> {
        if handle == FREE {
            return None;
        }
        self.entry(handle).map(|entry| entry.stream.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_the_stream_that_was_set_last_until_it_is_destroyed() {
        let streams = Streams::new();
        streams.insert(0x1000, 0);
        streams.insert(0x2000, 5);
        streams.insert(0x1000, 7);
        assert_eq!([0x1000, 0x2000, 0x3000, 0].map(|handle| streams.get(handle)), [Some(7), Some(5), None, None]);
        streams.remove(0x1000);
        assert_eq!(streams.get(0x1000), None);
    }

    #[test]
    fn handles_that_come_and_go_do_not_fill_the_table() {
        let streams = Streams::new();
        for handle in 1..100_000 {
            streams.insert(handle * 16, handle);
            assert_eq!(streams.get(handle * 16), Some(handle));
            streams.remove(handle * 16);
        }
        for handle in 1..100_000 {
            streams.insert(handle * 16, handle);
        }
        assert!((1..100_000).filter(|handle| streams.get(handle * 16) == Some(*handle)).count() > WAYS * SETS / 2);
    }
}

//! The living descriptors by their addresses. A lock covers one of many parts of the table, and no code runs under it
//! that is not in this file or one of the short closures of `mod.rs`.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_os::fork::call_at_forks;

use super::content::Content;
use super::facts;
use super::handles::{HANDLES, Handles};
use crate::lock::Lock;

/// A living descriptor.
pub(super) struct Record {
    /// Tells this descriptor from others that had its address before.
    pub(super) id: u64,
    pub(super) content: Arc<Content>,
    pub(super) label: Option<CachedLabel>,
}

/// A label, and the state of the descriptor that it describes.
pub(super) struct CachedLabel {
    pub(super) version: u32,
    pub(super) text: Option<Arc<str>>,
}

/// Descriptors whose addresses fall into the same part.
#[derive(Default)]
pub(super) struct Part {
    records: HashMap<usize, Record, BuildHasherDefault<AddressHasher>>,
    last_id: u64,
}

impl Part {
    const EMPTY: Part = Part { records: HashMap::with_hasher(BuildHasherDefault::new()), last_id: 0 };

    pub(super) fn get(&mut self, address: usize) -> Option<&mut Record> {
        self.records.get_mut(&address)
    }

    /// Adds a new descriptor. Returns the record of one that had this address and was not seen to be destroyed.
    pub(super) fn insert(&mut self, address: usize, content: Arc<Content>) -> Option<Record> {
        self.last_id += 1;
        self.records.insert(address, Record { id: self.last_id, content, label: None })
    }

    /// Removes the descriptor with this identity. There may be another one at its address.
    pub(super) fn remove(&mut self, address: usize, id: u64) -> Option<Record> {
        if self.records.get(&address)?.id != id {
            return None;
        }
        let removed = self.records.remove(&address);
        // A peak of descriptors does not take its memory for ever.
        if self.records.capacity() > 256 && self.records.len() < self.records.capacity() / 16 {
            self.records.shrink_to(self.records.capacity() / 4);
        }
        removed
    }
}

/// As many parts as threads may use the backend API at once.
const PARTS: usize = 64;

/// Each part on cache lines of its own.
#[repr(align(128))]
struct Aligned(Lock<Part>);

static TABLE: [Aligned; PARTS] = [const { Aligned(Lock::new(Part::EMPTY)) }; PARTS];

/// Runs a short section with the part of the table that has this address. `None` if another thread does not leave it.
/// What the section removes is to be returned, so that it is freed after it.
#[inline]
pub(super) fn with<R>(address: usize, section: impl FnOnce(&mut Part) -> R) -> Option<R> {
    handle_forks();
    let part = TABLE.get((spread(address) >> 32) as usize % PARTS)?;
    let mut guard = part.0.lock()?;
    // A missed destruction, and the address used again: rather nothing is known than something wrong.
    let outdated = part.0.take_missed().then(|| {
        let last_id = guard.last_id;
        std::mem::replace(&mut *guard, Part { last_id, ..Part::EMPTY })
    });
    let result = section(&mut guard);
    drop(guard);
    drop(outdated);
    Some(result)
}

/// The number of living descriptors.
#[cfg(test)]
pub(super) fn len() -> usize {
    TABLE.iter().filter_map(|part| Some(part.0.lock()?.records.len())).sum()
}

/// Addresses are multiples of 16 or more: this spreads them over all bits.
#[inline]
fn spread(address: usize) -> u64 {
    (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Default)]
struct AddressHasher(u64);

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
        // The table of the standard library uses the lowest and the highest bits.
        self.0 = hash ^ (hash >> 32);
    }
}

/// One fork at a time.
static FORK: Lock<()> = Lock::new(());

thread_local! {
    /// This thread forks, and no other does.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

#[inline]
fn handle_forks() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if !IS_REGISTERED.load(Ordering::Relaxed) && !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        call_at_forks(before_fork, after_fork, in_child);
    }
}

unsafe extern "C" fn before_fork() {
    if FORK.hold_for_fork() {
        let _ = FORKS.try_with(|forks| forks.set(true));
        TABLE.iter().for_each(|part| _ = part.0.hold_for_fork());
        facts::GATE.hold_for_fork();
        HANDLES.hold_for_fork();
    }
}

unsafe extern "C" fn after_fork() {
    if FORKS.try_with(|forks| forks.replace(false)).unwrap_or(false) {
        TABLE.iter().for_each(|part| part.0.release_after_fork());
        facts::GATE.release_after_fork();
        HANDLES.release_after_fork();
        FORK.release_after_fork();
    }
}

unsafe extern "C" fn in_child() {
    let _ = FORKS.try_with(|forks| forks.set(false));
    TABLE.iter().for_each(|part| part.0.release_in_child(Part::EMPTY));
    facts::GATE.release_in_child(());
    HANDLES.release_in_child(Handles::EMPTY);
    FORK.release_in_child(());
}

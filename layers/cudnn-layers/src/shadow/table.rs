//! Stores live descriptors by address, in many parts with separate locks.
//!
//! Only code in this file and the short closures in `mod.rs` run while a lock is held.

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

/// A live descriptor.
pub(super) struct Record {
    /// Distinguishes this descriptor from earlier ones with the same address.
    pub(super) id: u64,
    pub(super) content: Arc<Content>,
    pub(super) label: Option<CachedLabel>,
}

/// A label and the version of the content that it describes.
pub(super) struct CachedLabel {
    pub(super) version: u32,
    pub(super) text: Option<Arc<str>>,
}

/// Descriptors with addresses in the same part of the table.
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

    /// Adds a new descriptor. Returns the previous record at this address if its destruction was missed.
    pub(super) fn insert(&mut self, address: usize, content: Arc<Content>) -> Option<Record> {
        self.last_id += 1;
        self.records.insert(address, Record { id: self.last_id, content, label: None })
    }

    /// Removes the descriptor with this ID, unless the address belongs to a different descriptor by now.
    pub(super) fn remove(&mut self, address: usize, id: u64) -> Option<Record> {
        if self.records.get(&address)?.id != id {
            return None;
        }
        let removed = self.records.remove(&address);
        // Release memory after a peak.
        if self.records.capacity() > 256 && self.records.len() < self.records.capacity() / 16 {
            self.records.shrink_to(self.records.capacity() / 4);
        }
        removed
    }
}

/// About as many parts as threads that use the backend API at the same time.
const PARTS: usize = 64;

/// Avoids false sharing between parts.
#[repr(align(128))]
struct Aligned(Lock<Part>);

static TABLE: [Aligned; PARTS] = [const { Aligned(Lock::new(Part::EMPTY)) }; PARTS];

/// Locks the part of the table with this address and runs `section`. Returns `None` on timeout. The section should
/// return removed values, so that they are dropped after the lock is released.
#[inline]
pub(super) fn with<R>(address: usize, section: impl FnOnce(&mut Part) -> R) -> Option<R> {
    handle_forks();
    let part = TABLE.get((spread(address) >> 32) as usize % PARTS)?;
    let mut guard = part.0.lock()?;
    // A thread may have missed a destruction before the address was reused. Unknown contents are better than wrong
    // ones.
    let outdated = part.0.take_missed().then(|| {
        let last_id = guard.last_id;
        std::mem::replace(&mut *guard, Part { last_id, ..Part::EMPTY })
    });
    let result = section(&mut guard);
    drop(guard);
    drop(outdated);
    Some(result)
}

/// Returns the number of live descriptors.
#[cfg(test)]
pub(super) fn len() -> usize {
    TABLE.iter().filter_map(|part| Some(part.0.lock()?.records.len())).sum()
}

/// Mixes all bits, because addresses are multiples of at least 16.
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
        // The standard library's hash table uses the lowest and the highest bits.
        self.0 = hash ^ (hash >> 32);
    }
}

/// Only one thread forks at a time.
static FORK: Lock<()> = Lock::new(());

thread_local! {
    /// This thread holds [`FORK`].
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

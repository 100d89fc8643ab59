//! Maps the program's plan descriptors to restored plans. The program's descriptor stays unfinalized, and calls that
//! use it are redirected to the restored one. A lookup takes a few nanoseconds and is wait-free.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::shadow::elements::Raw;
use crate::shadow::handles::{self, Handle};

/// A restored plan. Entries are reused but never freed, so memory grows to the peak number of live plans.
pub(super) struct Restored {
    /// The address of the program's descriptor, or [`FREE`] or [`TAKEN`].
    program: AtomicUsize,
    plan: AtomicPtr<std::ffi::c_void>,
    /// The handles for finalizing the program's own descriptor. Modified only while `program` is [`TAKEN`].
    handles: UnsafeCell<Vec<Handle>>,
    /// The state of the program's own descriptor: see [`built`].
    pub(super) built: AtomicU64,
    next: *mut Restored,
}

// SAFETY: `next` does not change once the entry is in a list. `handles` is modified only by the thread that has set
// `program` to `TAKEN`, and no other thread can find the entry in that state.
unsafe impl Sync for Restored {}

/// Values of [`Restored::built`]. Other values identify the thread that is finalizing the descriptor.
pub(super) mod built {
    pub(in super::super) const NO: u64 = 0;
    /// The program's descriptor is finalized and can answer queries that the restored plan cannot.
    pub(in super::super) const DONE: u64 = 1;
}

const FREE: usize = 0;
/// Reserved, but not visible to lookups yet. No descriptor has this address.
const TAKEN: usize = 1;

const BUCKETS: usize = 1024;

static TABLE: [AtomicPtr<Restored>; BUCKETS] = [const { AtomicPtr::new(null_mut()) }; BUCKETS];

fn bucket(address: usize) -> &'static AtomicPtr<Restored> {
    let spread = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    #[allow(clippy::indexing_slicing, reason = "there are as many buckets")]
    &TABLE[spread as usize % BUCKETS]
}

#[expect(clippy::disallowed_methods, reason = "the entries belong to this library")]
fn all_in(bucket: &AtomicPtr<Restored>) -> impl Iterator<Item = &'static Restored> {
    // SAFETY: the pointer is null or a leaked box that was initialized before it was added to the list.
    let first = unsafe { bucket.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |restored| {
        // SAFETY: as above.
        unsafe { restored.next.as_ref() }
    })
}

/// Finds the restored plan of a descriptor, which must not be destroyed at the same time.
#[inline]
pub(super) fn find(descriptor: Raw) -> Option<&'static Restored> {
    let address = descriptor.addr();
    // A null pointer must not match a free entry.
    if address <= TAKEN {
        return None;
    }
    all_in(bucket(address)).find(|restored| restored.program.load(Ordering::Acquire) == address)
}

pub(super) fn insert(descriptor: Raw, plan: Raw, handles: Vec<Handle>) {
    let address = descriptor.addr();
    let bucket = bucket(address);
    let is_free = |restored: &&Restored| {
        restored.program.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    if let Some(free) = all_in(bucket).find(is_free) {
        free.plan.store(plan, Ordering::Relaxed);
        // SAFETY: this thread has reserved the entry.
        unsafe { *free.handles.get() = handles };
        free.built.store(built::NO, Ordering::Relaxed);
        free.program.store(address, Ordering::Release);
        return;
    }
    let mut next = bucket.load(Ordering::Acquire);
    let new = Box::into_raw(Box::new(Restored {
        program: AtomicUsize::new(address),
        plan: AtomicPtr::new(plan),
        handles: UnsafeCell::new(handles),
        built: AtomicU64::new(built::NO),
        next,
    }));
    while let Err(now) = bucket.compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire) {
        next = now;
        // SAFETY: no other thread can see the entry yet.
        unsafe { (*new).next = next };
    }
}

/// Removes the entry of a descriptor that is about to be destroyed. The caller must destroy the returned plan.
pub(super) fn remove(descriptor: Raw) -> Option<Raw> {
    let restored = find(descriptor)?;
    let plan = restored.plan();
    restored.program.store(FREE, Ordering::Release);
    Some(plan)
}

impl Restored {
    pub(super) fn plan(&self) -> Raw {
        self.plan.load(Ordering::Relaxed).cast()
    }

    /// Returns whether all handles for this plan are still live.
    pub(super) fn has_its_handles(&self) -> bool {
        // SAFETY: a thread that found the entry sees the handles, and they do not change while the program's descriptor
        // exists.
        unsafe { &*self.handles.get() }.iter().all(|handle| handles::living(handle.address) == *handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_by_the_programs_descriptor_and_forgotten() {
        let raw = |address: usize| std::ptr::without_provenance_mut(address);
        assert!((1..5000_usize).any(|number| std::ptr::eq(bucket(number * 64), bucket(FREE))), "null has a free place");
        for round in 0..3_usize {
            for descriptor in (1..5000_usize).map(|number| number * 64) {
                insert(raw(descriptor), raw(descriptor + 8 + round), Vec::new());
            }
            for descriptor in (1..5000_usize).map(|number| number * 64) {
                assert_eq!(find(raw(descriptor)).map(|found| found.plan().addr()), Some(descriptor + 8 + round));
                assert!(find(raw(descriptor + 16)).is_none());
            }
            for descriptor in (1..5000_usize).map(|number| number * 64) {
                assert_eq!(remove(raw(descriptor)).map(|plan| plan.addr()), Some(descriptor + 8 + round));
                assert_eq!(remove(raw(descriptor)), None);
            }
            assert_eq!(remove(null_mut()), None);
        }
        let nodes: usize = TABLE.iter().map(|bucket| all_in(bucket).count()).sum();
        assert!(nodes < 5000, "{nodes}");
    }
}

//! Plans of the program that were restored: the program's descriptor stays as it is, not finalized, and calls with it
//! go to the descriptor that this layer has restored. A look-up costs a few nanoseconds, waits for nobody and locks
//! nothing.

use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use crate::shadow::elements::Raw;
use crate::shadow::handles::{self, Handle};

/// A restored plan. Never freed, but used again: as many as there ever were plans at once.
pub(super) struct Restored {
    /// The address of the program's descriptor, or [`FREE`] or [`TAKEN`].
    program: AtomicUsize,
    plan: AtomicPtr<std::ffi::c_void>,
    /// The handles with which cuDNN would finalize the program's own descriptor. Changes while `program` is [`TAKEN`].
    handles: UnsafeCell<Vec<Handle>>,
    /// How far the program's own descriptor is: see [`Built`].
    pub(super) built: AtomicU8,
    /// The number of the thread that finalizes it, or 0.
    pub(super) builder: AtomicU32,
    next: *mut Restored,
}

// SAFETY: `next` never changes once the value is in a list, and `handles` only by the thread that has taken the place, which
// no other thread finds until then.
unsafe impl Sync for Restored {}

/// The values of [`Restored::built`].
pub(super) mod built {
    /// The program's descriptor is not finalized.
    pub(in super::super) const NO: u8 = 0;
    /// A thread finalizes it.
    pub(in super::super) const BEGUN: u8 = 1;
    /// It is finalized, and answers what the restored plan does not.
    pub(in super::super) const DONE: u8 = 2;
}

const FREE: usize = 0;
/// Not free, but not to be found yet. No descriptor has this address.
const TAKEN: usize = 1;

const BUCKETS: usize = 1024;

static TABLE: [AtomicPtr<Restored>; BUCKETS] = [const { AtomicPtr::new(null_mut()) }; BUCKETS];

fn bucket(address: usize) -> &'static AtomicPtr<Restored> {
    let spread = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    // 10 bits.
    #[allow(clippy::indexing_slicing, reason = "there are as many buckets")]
    &TABLE[spread as usize % BUCKETS]
}

fn all_in(bucket: &AtomicPtr<Restored>) -> impl Iterator<Item = &'static Restored> {
    // SAFETY: null, or a leaked box that was complete before it was put into the list.
    let first = unsafe { bucket.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |restored| {
        // SAFETY: as above.
        unsafe { restored.next.as_ref() }
    })
}

/// What was restored for this descriptor of the program. The program lets no other thread destroy it meanwhile.
#[inline]
pub(super) fn find(descriptor: Raw) -> Option<&'static Restored> {
    let address = descriptor.addr();
    // A null pointer of the program is no free place's.
    if address <= TAKEN {
        return None;
    }
    all_in(bucket(address)).find(|restored| restored.program.load(Ordering::Acquire) == address)
}

/// From now on, calls with the program's descriptor go to this plan.
pub(super) fn insert(descriptor: Raw, plan: Raw, handles: Vec<Handle>) {
    let address = descriptor.addr();
    let bucket = bucket(address);
    let is_free = |restored: &&Restored| {
        restored.program.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    if let Some(free) = all_in(bucket).find(is_free) {
        free.plan.store(plan, Ordering::Relaxed);
        // SAFETY: this thread has taken the place.
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
        built: AtomicU8::new(built::NO),
        builder: AtomicU32::new(0),
        next,
    }));
    while let Err(now) = bucket.compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire) {
        next = now;
        // SAFETY: no other thread has it yet.
        unsafe { (*new).next = next };
    }
}

/// Forgets a descriptor of the program that is to be destroyed. Returns the plan, which is to be destroyed too.
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

    /// Whether the program has destroyed none of the handles that it named.
    pub(super) fn has_its_handles(&self) -> bool {
        // SAFETY: whoever has found the place sees the handles, and they change when the program's descriptor is gone.
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
        // Those of the first round serve the others.
        let nodes: usize = TABLE.iter().map(|bucket| all_in(bucket).count()).sum();
        assert!(nodes < 5000, "{nodes}");
    }
}

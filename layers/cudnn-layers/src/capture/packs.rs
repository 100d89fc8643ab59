//! Decides which variant packs are followed.
//!
//! Programs make a pack for every step, and cuDNN refuses to return the pointers of a pack. Packs are therefore followed
//! only while a plan awaits the first execution, until the first plan exists, and while values of tensors are requested.
//! All other packs are unknown, and also those that may have changed later.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::lock::Lock;
use crate::shadow::elements::Raw;

/// The number of live plans that await the first execution.
static AWAITED: AtomicUsize = AtomicUsize::new(0);
/// A plan was recorded.
static HAS_PLAN: AtomicBool = AtomicBool::new(false);
/// All packs are followed.
static IS_ALWAYS: AtomicBool = AtomicBool::new(false);
/// This grows whenever the layer stops to follow packs.
static PERIOD: AtomicU64 = AtomicU64::new(0);
/// The periods in which packs were made, by address.
static PACKS: Lock<Option<HashMap<usize, u64>>> = Lock::new(None);
/// More packs than are live at the same time.
const MAX_PACKS: usize = 4096;

/// Follows all packs from now on.
pub(super) fn follow_always() {
    IS_ALWAYS.store(true, Ordering::Relaxed);
}

/// Returns whether packs are followed now.
#[inline]
pub(super) fn are_followed() -> bool {
    AWAITED.load(Ordering::Relaxed) > 0 || !HAS_PLAN.load(Ordering::Relaxed) || IS_ALWAYS.load(Ordering::Relaxed)
}

/// A plan was recorded, which may await the first execution.
pub(super) fn added_plan(awaits_execution: bool) {
    AWAITED.fetch_add(usize::from(awaits_execution), Ordering::Relaxed);
    HAS_PLAN.store(true, Ordering::Relaxed);
}

/// A plan stops to await the first execution.
pub(super) fn stop_awaiting() {
    if AWAITED.fetch_sub(1, Ordering::Relaxed) == 1 && !are_followed() {
        PERIOD.fetch_add(1, Ordering::Relaxed);
    }
}

/// Follows the creation of a pack.
pub(super) fn created(pack: Raw) {
    if let Some(mut packs) = PACKS.lock() {
        let packs = packs.get_or_insert_default();
        if packs.len() >= MAX_PACKS {
            packs.clear();
        }
        packs.insert(pack.addr(), PERIOD.load(Ordering::Relaxed));
    }
}

/// Follows the destruction of a pack.
pub(super) fn destroyed(pack: Raw) {
    let _period = PACKS.lock().and_then(|mut packs| packs.as_mut()?.remove(&pack.addr()));
}

/// Returns whether all changes of a pack were followed.
pub(super) fn is_known(pack: Raw) -> bool {
    let period = PACKS.lock().and_then(|packs| packs.as_ref()?.get(&pack.addr()).copied());
    period == Some(PERIOD.load(Ordering::Relaxed))
}

/// Takes the lock before a fork.
pub(super) fn before_fork() {
    PACKS.hold_for_fork();
}

/// Releases the lock in the parent after a fork.
pub(super) fn after_fork() {
    PACKS.release_after_fork();
}

/// Releases the lock in the child after a fork. The child ignores the plans of the parent.
pub(super) fn in_child() {
    PACKS.release_in_child(None);
    AWAITED.store(0, Ordering::Relaxed);
}

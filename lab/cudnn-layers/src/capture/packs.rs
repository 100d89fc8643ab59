//! Decides which variant packs are followed.
//!
//! Programs make a pack for every step, and cuDNN refuses to return the pointers of a pack. Packs are therefore followed
//! only while a plan awaits the first execution, until the first plan exists, and while values of tensors are requested.
//! All other packs are unknown, and also those that may have changed later.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::shadow::elements::Raw;
use crate::table::Table;

/// The number of reasons to follow packs, and in the upper half the period, which grows whenever the last reason ends.
/// The reasons are the live plans that await the first execution, the lack of a first plan, and requested values.
static STATE: AtomicU64 = AtomicU64::new(1);
/// One period.
const PERIOD: u64 = 1 << 32;
/// A plan was recorded.
static HAS_PLAN: AtomicBool = AtomicBool::new(false);
/// All packs are followed.
static IS_ALWAYS: AtomicBool = AtomicBool::new(false);
/// The periods in which packs were made. There is room for more packs than are live at the same time.
pub(super) static PACKS: Table<u64> = Table::new(4096);

/// Follows all packs from now on.
pub(super) fn follow_always() {
    if !IS_ALWAYS.swap(true, Ordering::Relaxed) {
        add_reason();
    }
}

fn add_reason() {
    STATE.fetch_add(1, Ordering::AcqRel);
}

fn has_reason(state: u64) -> bool {
    !state.is_multiple_of(PERIOD)
}

/// Returns whether packs are followed now.
#[inline]
pub(super) fn are_followed() -> bool {
    has_reason(STATE.load(Ordering::Acquire))
}

/// A plan was recorded, which may await the first execution.
pub(super) fn added_plan(awaits_execution: bool) {
    if awaits_execution {
        add_reason();
    }
    if !HAS_PLAN.swap(true, Ordering::Relaxed) {
        stop_awaiting();
    }
}

/// A plan stops to await the first execution.
pub(super) fn stop_awaiting() {
    // One step, because another thread may change a pack at once.
    let _state = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
        let rest = if has_reason(state) { state - 1 } else { return None };
        Some(if has_reason(rest) { rest } else { rest.wrapping_add(PERIOD) })
    });
}

/// Follows the creation of a pack.
pub(super) fn created(pack: Raw) {
    let state = STATE.load(Ordering::Acquire);
    if has_reason(state) {
        PACKS.insert(pack.addr(), state / PERIOD);
    }
}

/// Follows the destruction of a pack.
pub(super) fn destroyed(pack: Raw) {
    PACKS.remove(pack.addr());
}

/// Returns whether all changes of a pack were followed.
pub(super) fn is_known(pack: Raw) -> bool {
    PACKS.get(pack.addr()) == Some(STATE.load(Ordering::Acquire) / PERIOD)
}

/// A forked child ignores the plans of the parent, and awaits a first plan.
pub(super) fn in_child() {
    HAS_PLAN.store(false, Ordering::Relaxed);
    let period = STATE.load(Ordering::Acquire) / PERIOD * PERIOD;
    STATE.store(period + 1 + u64::from(IS_ALWAYS.load(Ordering::Relaxed)), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test, because the state is global.
    #[test]
    fn packs_that_may_have_changed_are_unknown() {
        let [first, second, third] = [16, 32, 48].map(std::ptr::without_provenance_mut);
        created(first);
        added_plan(true);
        created(second);
        added_plan(true);
        stop_awaiting();
        assert!(are_followed() && is_known(first) && is_known(second));
        stop_awaiting();
        assert!(!are_followed());
        created(third);
        added_plan(true);
        assert!(are_followed() && !is_known(first) && !is_known(second) && !is_known(third));
        created(third);
        assert!(is_known(third));
        stop_awaiting();
        stop_awaiting();
        assert!(!are_followed());
        in_child();
        created(first);
        assert!(are_followed() && is_known(first) && !is_known(third));
        added_plan(false);
        assert!(!are_followed());
        follow_always();
        created(first);
        added_plan(true);
        stop_awaiting();
        assert!(are_followed() && is_known(first));
    }
}

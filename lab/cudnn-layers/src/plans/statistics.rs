//! Counts the layer's work in this process and formats the summary at exit.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::key::NotCached;
use crate::lock::Lock;
use crate::report::Shown;

pub(super) struct Count {
    times: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Count {
    const fn new() -> Self {
        Count { times: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, duration: Duration) -> u64 {
        self.nanoseconds.fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&self) -> (u64, Duration) {
        (self.times.load(Ordering::Relaxed), Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)))
    }

    fn clear(&self) {
        self.times.store(0, Ordering::Relaxed);
        self.nanoseconds.store(0, Ordering::Relaxed);
    }
}

/// Restored plans, with the time to restore them.
pub(super) static RESTORED: Count = Count::new();
/// The same plans, with the time that cuDNN originally took to build them.
pub(super) static SAVED: Count = Count::new();
/// Plans that cuDNN built and that were cached, with the time to build them.
pub(super) static BUILT: Count = Count::new();
/// The same plans, with the time to look them up and to cache them.
pub(super) static CACHING: Count = Count::new();
/// Cached plans that were damaged or that cuDNN could not restore.
pub(super) static UNUSABLE: Count = Count::new();
/// Plans that were built but could not be written to the store.
pub(super) static NOT_WRITTEN: Count = Count::new();
/// Plans with engines that compile no code.
pub(super) static PRECOMPILED: Count = Count::new();

/// The reasons why plans were not cached, with counts. Processes usually have only a few.
pub(super) static NOT_CACHED: Lock<Vec<(NotCached, u64)>> = Lock::keeping(Vec::new());

const MAX_REASONS: usize = 64;

/// Counts a plan that is not cached. Returns whether the reason is new.
pub(super) fn not_cached(reason: NotCached) -> bool {
    let Some(mut reasons) = NOT_CACHED.lock() else { return false };
    if let Some((_, count)) = reasons.iter_mut().find(|(known, _)| *known == reason) {
        *count += 1;
        return false;
    }
    if reasons.len() >= MAX_REASONS {
        return false;
    }
    reasons.push((reason, 1));
    true
}

/// Resets the counts that a forked child inherits from its parent.
pub(super) fn clear() {
    for count in [&RESTORED, &SAVED, &BUILT, &CACHING, &UNUSABLE, &NOT_WRITTEN, &PRECOMPILED] {
        count.clear();
    }
}

pub(super) fn report(title: &str) -> String {
    let mut text = format!("{title}\n");
    let (restored, restoring) = RESTORED.get();
    let (_, saved) = SAVED.get();
    let (built, building) = BUILT.get();
    let _ = writeln!(text, "{restored:>8} restored in {} (building them took {})", Shown(restoring), Shown(saved));
    let (_, keeping) = CACHING.get();
    let _ = writeln!(text, "{built:>8} built in {} and cached in {}", Shown(building), Shown(keeping));
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "{count:>8} {what}");
        }
    };
    line(UNUSABLE.get().0, "cached but unusable, built again");
    line(NOT_WRITTEN.get().0, "built but not cached: cannot write to the plan store");
    line(PRECOMPILED.get().0, "without compiled code, not cached");
    let reasons = NOT_CACHED.lock().map(|reasons| reasons.clone()).unwrap_or_default();
    let mut reasons: Vec<_> = reasons.into_iter().map(|(reason, count)| (count, reason.to_string())).collect();
    reasons.sort_by(|a, b| b.cmp(a));
    for (count, reason) in reasons {
        line(count, &format!("not cached: {reason}"));
    }
    text
}

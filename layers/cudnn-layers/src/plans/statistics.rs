//! What the layer did in this process, for the summary at exit.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::key::NotKept;
use crate::lock::Lock;
use crate::report::Shown;

/// How often something happened, and how long it took.
pub(super) struct Count {
    times: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Count {
    const fn new() -> Self {
        Count { times: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) }
    }

    /// Returns how often it had happened before.
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

/// Plans that were restored, with the time that this took.
pub(super) static RESTORED: Count = Count::new();
/// The same plans, with the time that it took to build them when they were kept.
pub(super) static SAVED: Count = Count::new();
/// Plans that cuDNN built and that are kept now, with the time that it took.
pub(super) static BUILT: Count = Count::new();
/// What it took to look these plans up and to keep them.
pub(super) static KEPT: Count = Count::new();
/// Kept plans that could not be restored or were damaged.
pub(super) static UNUSABLE: Count = Count::new();
/// Plans that were built and could not be kept.
pub(super) static NOT_WRITTEN: Count = Count::new();
/// Plans of engines that compile nothing.
pub(super) static PRECOMPILED: Count = Count::new();

/// Why plans were not kept, and how many. A process has a handful of reasons.
pub(super) static NOT_KEPT: Lock<Option<HashMap<NotKept, u64>>> = Lock::new(None);

const MAX_REASONS: usize = 64;

/// Counts a plan that is not kept. Returns whether it is the first for this reason.
pub(super) fn not_kept(reason: NotKept) -> bool {
    let Some(mut reasons) = NOT_KEPT.lock() else { return false };
    let reasons = reasons.get_or_insert_default();
    if let Some(count) = reasons.get_mut(&reason) {
        *count += 1;
        return false;
    }
    if reasons.len() >= MAX_REASONS {
        return false;
    }
    reasons.insert(reason, 1);
    true
}

/// Forgets all: in a child process those are its parent's.
pub(super) fn clear() {
    for count in [&RESTORED, &SAVED, &BUILT, &KEPT, &UNUSABLE, &NOT_WRITTEN, &PRECOMPILED] {
        count.clear();
    }
    let _former = NOT_KEPT.lock().and_then(|mut reasons| reasons.take());
}

/// The summary, for people.
pub(super) fn report(title: &str) -> String {
    let mut text = format!("{title}\n");
    let (restored, restoring) = RESTORED.get();
    let (_, saved) = SAVED.get();
    let (built, building) = BUILT.get();
    let _ = writeln!(text, "{restored:>8} restored in {}, which took {} to build", Shown(restoring), Shown(saved));
    let (_, keeping) = KEPT.get();
    let _ = writeln!(text, "{built:>8} built in {}, and kept in {}", Shown(building), Shown(keeping));
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "{count:>8} {what}");
        }
    };
    line(UNUSABLE.get().0, "kept, but unusable, and built again");
    line(NOT_WRITTEN.get().0, "built and not kept: the store cannot be written");
    line(PRECOMPILED.get().0, "without code to compile, which are not kept");
    let reasons = NOT_KEPT.lock().and_then(|reasons| reasons.clone()).unwrap_or_default();
    let mut reasons: Vec<_> = reasons.into_iter().map(|(reason, count)| (count, reason.to_string())).collect();
    reasons.sort_by(|a, b| b.cmp(a));
    for (count, reason) in reasons {
        line(count, &format!("not kept: {reason}"));
    }
    text
}

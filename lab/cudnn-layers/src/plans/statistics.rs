//! Counts the layer's work in this process and formats the summary at exit.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::key::NotCached;
use crate::lock::Lock;
use crate::report::Shown;

/// What happened to a plan.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// It was restored, which took this time.
    Restored,
    /// It was restored, and cuDNN had taken this time to build it.
    Saved,
    /// cuDNN has built it in this time, and it was cached.
    Built,
    /// cuDNN has built it, and looking it up and caching it took this time.
    Cached,
    /// It was damaged, or cuDNN could not restore it.
    Unusable,
    /// It was built, but could not be written to the store.
    NotWritten,
    /// The engine compiles no code.
    Precompiled,
    NotCached(NotCached),
}

/// The number of plans and the total time by event.
pub(super) static COUNTS: Lock<BTreeMap<Event, (u64, Duration)>> = Lock::keeping(BTreeMap::new());

/// More reasons than a process has, although a reason may name any attribute.
const MAX_REASONS: usize = 64;

/// Counts a plan. Returns whether it is the first one with this event.
pub(super) fn add(event: Event, duration: Duration) -> bool {
    let Some(mut counts) = COUNTS.lock() else { return false };
    let is_reason = |event: &Event| matches!(event, Event::NotCached(_));
    if is_reason(&event)
        && !counts.contains_key(&event)
        && counts.keys().filter(|known| is_reason(known)).count() >= MAX_REASONS
    {
        return false;
    }
    let (count, total) = counts.entry(event).or_default();
    (*count, *total) = (*count + 1, total.saturating_add(duration));
    *count == 1
}

pub(super) fn report(title: &str) -> String {
    let counts = COUNTS.lock().map(|counts| counts.clone()).unwrap_or_default();
    let count = |event| counts.get(&event).copied().unwrap_or_default();
    let ((restored, restoring), (_, saved)) = (count(Event::Restored), count(Event::Saved));
    let ((built, building), (_, caching)) = (count(Event::Built), count(Event::Cached));
    let mut text = format!("{title}\n");
    let _ = writeln!(text, "{restored:>8} restored in {} (building them took {})", Shown(restoring), Shown(saved));
    let _ = writeln!(text, "{built:>8} built in {} and cached in {}", Shown(building), Shown(caching));
    let mut line = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "{count:>8} {what}");
        }
    };
    line(count(Event::Unusable).0, "cached but unusable, built again");
    line(count(Event::NotWritten).0, "built but not cached: cannot write to the plan store");
    line(count(Event::Precompiled).0, "without compiled code, not cached");
    let reason = |(event, (count, _)): (&Event, &(u64, Duration))| match event {
        Event::NotCached(reason) => Some((*count, reason.clone())),
        _ => None,
    };
    let mut reasons: Vec<_> = counts.iter().filter_map(reason).collect();
    reasons.sort_by(|a, b| b.cmp(a));
    for (count, reason) in reasons {
        line(count, &format!("not cached: {reason}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_do_not_displace_other_events() {
        let reason = |number: usize| Event::NotCached(format!("attribute {number}").into());
        for number in 0..2 * MAX_REASONS {
            assert_eq!(add(reason(number), Duration::ZERO), number < MAX_REASONS, "{number}");
        }
        assert!(add(Event::NotWritten, Duration::ZERO) && !add(reason(0), Duration::ZERO));
        let report = report("title");
        assert_eq!(report.matches("not cached: attribute").count(), MAX_REASONS, "{report}");
        assert!(
            report.contains("1 built but not cached") && report.contains("2 not cached: attribute 0\n"),
            "{report}"
        );
    }
}

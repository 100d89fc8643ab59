//! Collects statistics of durations in a fixed amount of memory, for any number of threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per power of two. The error of the median is at most 1/16.
const PARTS: u64 = 8;
/// Durations of up to 2^40 nanoseconds (18 minutes) are distinguished.
const BUCKETS: usize = 40 * PARTS as usize;

/// Statistics of the durations of a function or graph.
pub(super) struct Statistics {
    total: AtomicU64,
    maximum: AtomicU64,
    /// The duration of the first call plus one, or 0 before the first call.
    first: AtomicU64,
    /// The time to resolve the function.
    resolving: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// A snapshot of the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) calls: u64,
    pub(super) total: Duration,
    pub(super) mean: Duration,
    pub(super) median: Duration,
    pub(super) maximum: Duration,
    pub(super) first: Duration,
    pub(super) resolving: Duration,
}

impl Statistics {
    pub(super) const fn new() -> Self {
        Statistics {
            total: AtomicU64::new(0),
            maximum: AtomicU64::new(0),
            first: AtomicU64::new(0),
            resolving: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Adds a duration, in nanoseconds.
    #[inline]
    pub(super) fn add(&self, duration: u64) {
        if self.first.load(Ordering::Relaxed) == 0 {
            let _ = self.first.compare_exchange(0, duration + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.total.fetch_add(duration, Ordering::Relaxed);
        if duration > self.maximum.load(Ordering::Relaxed) {
            self.maximum.fetch_max(duration, Ordering::Relaxed);
        }
        if let Some(bucket) = self.buckets.get(bucket(duration)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds the time to resolve the function.
    pub(super) fn add_resolving(&self, duration: u64) {
        self.resolving.fetch_add(duration, Ordering::Relaxed);
    }

    /// Resets all values.
    pub(super) fn clear(&self) {
        let others = [&self.total, &self.maximum, &self.first, &self.resolving];
        for cell in others.into_iter().chain(&self.buckets) {
            // Skip zeros: most pages were never written and should not be allocated.
            if cell.load(Ordering::Relaxed) != 0 {
                cell.store(0, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let calls: u64 = counts.iter().sum();
        let total = self.total.load(Ordering::Relaxed);
        let maximum = self.maximum.load(Ordering::Relaxed);
        let mut before = 0;
        let middle = counts.iter().position(|count| {
            before += count;
            before * 2 > calls
        });
        Figures {
            calls,
            total: Duration::from_nanos(total),
            mean: Duration::from_nanos(total.checked_div(calls).unwrap_or_default()),
            median: Duration::from_nanos(middle.map_or(0, middle_of).min(maximum)),
            maximum: Duration::from_nanos(maximum),
            first: Duration::from_nanos(self.first.load(Ordering::Relaxed).saturating_sub(1)),
            resolving: Duration::from_nanos(self.resolving.load(Ordering::Relaxed)),
        }
    }
}

/// Returns the bucket of a duration. The first buckets have a width of 1.
fn bucket(duration: u64) -> usize {
    let power = u64::from(duration.max(PARTS).ilog2() - PARTS.ilog2());
    let bucket = power * PARTS + (duration >> power);
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the duration in the middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let power = bucket / PARTS - 1;
    let start = (bucket % PARTS + PARTS) << power;
    start + (1 << power) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_near_that_of_all_durations() {
        for middle in [0, 1, 7, 8, 9, 100, 1_000, 12_345, 1_000_000, 987_654_321] {
            let statistics = Statistics::new();
            for duration in [0, middle, middle, middle, 2_000_000_000] {
                statistics.add(duration);
            }
            let median = u64::try_from(statistics.figures().median.as_nanos()).unwrap_or_default();
            assert!(median.abs_diff(middle) <= middle / 16, "{median} for {middle}");
        }
    }

    #[test]
    fn buckets_are_in_the_order_of_durations() {
        let mut last = 0;
        for duration in 0..1_000_000 {
            assert!(bucket(duration) == last || bucket(duration) == last + 1, "{duration}");
            last = bucket(duration);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn figures_are_those_of_what_was_added() {
        let statistics = Statistics::new();
        assert_eq!(statistics.figures(), Figures::default());
        statistics.add_resolving(500);
        [30, 10, 20].into_iter().for_each(|duration| statistics.add(duration));
        let expected = Figures {
            calls: 3,
            total: Duration::from_nanos(60),
            mean: Duration::from_nanos(20),
            median: Duration::from_nanos(21),
            maximum: Duration::from_nanos(30),
            first: Duration::from_nanos(30),
            resolving: Duration::from_nanos(500),
        };
        assert_eq!(statistics.figures(), expected);
        statistics.clear();
        assert_eq!(statistics.figures(), Figures::default());
    }
}

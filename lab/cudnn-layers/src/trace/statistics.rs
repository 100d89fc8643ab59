//! Collects statistics of durations in a fixed amount of memory.

/// Buckets per power of two. The error of the median is at most 1/16.
const PARTS: u64 = 8;
/// Durations of up to 2^40 nanoseconds (18 minutes) are distinguished.
const BUCKETS: usize = 40 * PARTS as usize;

/// Statistics of the durations of a function or graph, in nanoseconds.
pub(super) struct Statistics {
    pub(super) total: u64,
    pub(super) maximum: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics::new()
    }
}

impl Statistics {
    pub(super) const fn new() -> Self {
        Statistics { total: 0, maximum: 0, buckets: [0; BUCKETS] }
    }

    pub(super) fn add(&mut self, duration: u64) {
        self.total = self.total.saturating_add(duration);
        self.maximum = self.maximum.max(duration);
        if let Some(count) = self.buckets.get_mut(bucket(duration)) {
            *count += 1;
        }
    }

    pub(super) fn calls(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(super) fn median(&self) -> u64 {
        let (calls, mut before) = (self.calls(), 0);
        let middle = self.buckets.iter().position(|count| {
            before += count;
            before * 2 > calls
        });
        middle.map_or(0, middle_of).min(self.maximum)
    }
}

/// Returns the bucket of a duration. The first buckets have a width of 1.
fn bucket(duration: u64) -> usize {
    let power = u64::from(duration.max(PARTS).ilog2() - PARTS.ilog2());
    let bucket = power * PARTS + (duration >> power);
    (bucket as usize).min(BUCKETS - 1)
}

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
            let mut statistics = Statistics::new();
            for duration in [0, middle, middle, middle, 2_000_000_000] {
                statistics.add(duration);
            }
            let median = statistics.median();
            assert!(median.abs_diff(middle) <= middle / 16, "{median} for {middle}");
            assert_eq!((statistics.calls(), statistics.total), (5, 3 * middle + 2_000_000_000));
        }
        assert_eq!((Statistics::new().median(), Statistics::new().calls()), (0, 0));
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
}

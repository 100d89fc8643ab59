//! Measures executions with an empty L2 cache.

use cudnn_backend::Failure;
use cudnn_backend::gpu::{Gpu, Interval, Memory};

use crate::tune::race::Race;
use crate::tune::statistics::Timing;

/// The ratio between the buffer that is written to empty the L2 cache and the cache.
const FLUSHED: usize = 2;
/// The size of this buffer if the driver does not report the size of the cache.
const MIN_FLUSH: usize = 16 << 20;

pub(super) struct Stopwatch {
    flush: Memory,
}

impl Stopwatch {
    pub(super) fn new(gpu: &Gpu) -> Result<Self, Failure> {
        let size = (gpu.l2_bytes()? * FLUSHED).max(MIN_FLUSH);
        Ok(Stopwatch { flush: gpu.zeroed(size)? })
    }

    pub(super) fn measure(
        &mut self,
        gpu: &Gpu,
        execute: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Interval, Failure> {
        gpu.fill(&mut self.flush, 0)?;
        gpu.between_events(execute)
    }

    /// Measures a plan like a tuning with a single candidate.
    pub(super) fn timing(
        &mut self,
        gpu: &Gpu,
        mut execute: impl FnMut() -> Result<(), Failure>,
    ) -> Result<Option<Timing>, Failure> {
        timing(|| Ok(self.measure(gpu, &mut execute)?.microseconds()?))
    }
}

/// Measures like a tuning with a single candidate, or until an execution fails.
fn timing(mut measure: impl FnMut() -> Result<f64, Failure>) -> Result<Option<Timing>, Failure> {
    const ONLY: usize = 0;
    let mut race = Race::new(&[(ONLY, 0.0)], &[], Some(ONLY));
    while !race.next_round().is_empty() {
        race.finish_round(&[(ONLY, measure()?)]);
    }
    Ok(race.timing(ONLY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_executions_are_measured_more_often() {
        let timing_of = |start: u32| {
            let mut times = (start..).map(f64::from);
            let timing = timing(|| times.next().ok_or_else(|| "no time".into())).unwrap().unwrap();
            (timing.count, timing.median)
        };
        assert_eq!(timing_of(1), (9, 5.0));
        // Three executions take longer than the time limit.
        assert_eq!(timing_of(200_000), (3, 200_001.0));
    }

    #[test]
    fn failure_ends_the_measurement() {
        let mut count = 0;
        let failed = timing(|| {
            count += 1;
            if count == 2 { Err("lost device".into()) } else { Ok(1.0) }
        });
        assert_eq!((failed.unwrap_err().to_string().as_str(), count), ("lost device", 2));
    }
}

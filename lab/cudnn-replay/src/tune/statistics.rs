//! Computes the median and the spread of measured times.

use serde::{Deserialize, Serialize};

/// The minimum relative improvement.
pub const MIN_GAIN: f64 = 0.02;
/// Medians that differ by this number of standard errors are different.
const CONFIDENCE: f64 = 3.0;
/// The smallest standard error of a median in microseconds, because events have a limited resolution.
const RESOLUTION: f64 = 0.05;

/// The measured times of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The median in microseconds.
    pub median: f64,
    /// The median distance from the median in microseconds, scaled to a standard deviation.
    pub spread: f64,
    /// The number of measurements.
    pub count: usize,
}

impl Timing {
    /// Summarizes times in microseconds. Returns `None` if there are none.
    pub fn new(times: &[f64]) -> Option<Self> {
        let center = median(times)?;
        let distances: Vec<f64> = times.iter().map(|time| (time - center).abs()).collect();
        // For normally distributed times, this estimates the standard deviation.
        Some(Timing { median: center, spread: 1.4826 * median(&distances)?, count: times.len() })
    }

    fn noise(&self) -> f64 {
        (1.2533 * self.spread / (self.count.max(1) as f64).sqrt()).max(RESOLUTION)
    }

    /// Returns the smallest and the largest plausible difference to a longer time.
    fn gains(&self, slower: &Timing) -> (f64, f64) {
        let (gain, noise) = (slower.median - self.median, CONFIDENCE * self.noise().hypot(slower.noise()));
        (gain - noise, gain + noise)
    }

    /// Returns whether this time is shorter by more than the noise, and by at least [`MIN_GAIN`].
    pub fn improves(&self, on: &Timing) -> bool {
        self.gains(on).0 > 0.0 && on.median - self.median >= MIN_GAIN * on.median
    }

    /// Returns whether more measurements could show an improvement.
    pub fn could_improve(&self, on: &Timing) -> bool {
        self.gains(on).1 >= MIN_GAIN * on.median
    }

    /// Returns whether this time is longer by more than the noise.
    pub fn is_slower(&self, than: &Timing) -> bool {
        than.gains(self).0 > 0.0
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(median: f64, spread: f64, count: usize) -> Timing {
        Timing { median, spread, count }
    }

    #[test]
    fn outliers_change_neither_median_nor_spread() {
        let times = Timing::new(&[10.0, 11.0, 9.0, 10.0, 5000.0]).unwrap();
        assert_eq!((times.median, times.count), (10.0, 5));
        assert!((times.spread - 1.4826).abs() < 1e-9, "{times:?}");
        assert_eq!(Timing::new(&[1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Timing::new(&[]), None);
    }

    #[test]
    fn an_improvement_exceeds_two_percent_and_the_noise() {
        let slow = timing(100.0, 1.0, 25);
        assert!(timing(97.0, 1.0, 25).improves(&slow));
        assert!(!timing(98.5, 0.1, 25).improves(&slow), "less than 2 %");
        assert!(!timing(97.0, 20.0, 25).improves(&slow), "noise");
        assert!(!slow.improves(&slow) && !timing(103.0, 0.0, 25).improves(&slow));
        assert!(!timing(2.0, 0.0, 25).improves(&timing(2.1, 0.0, 25)));
    }

    #[test]
    fn more_measurements_decide_only_close_races() {
        let default = timing(100.0, 1.0, 10);
        assert!(timing(97.0, 20.0, 10).could_improve(&default));
        assert!(!timing(99.9, 0.1, 100).could_improve(&default) && !timing(130.0, 5.0, 10).could_improve(&default));
        assert!(timing(130.0, 5.0, 10).is_slower(&default) && !timing(100.5, 5.0, 10).is_slower(&default));
    }
}

//! Limits the time to wait for a child process.

use std::time::Duration;

use crate::child_report::{ChildStep, Work};

/// The overall limit for a child with any number of steps.
const TOTAL_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

/// The overall limit for other children, regardless of progress.
const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The user's limit for a step raises the overall limit to this multiple, because the longest run has six steps.
const MAX_LIMITS_OF_RUN: u32 = 6;

/// The time limits for each child process of a command. They are separate, so that a hanging driver leaves time for
/// cuDNN.
#[derive(Clone, Copy)]
pub struct Timeouts {
    /// The user's limit for each step.
    timeout: Option<Duration>,
    /// The overall limit.
    pub(super) total: Duration,
}

impl Timeouts {
    /// Returns the time limits of a command, possibly with the user's limit for each step.
    pub fn new(timeout: Option<Duration>) -> Timeouts {
        let total = RUN_LIMIT.max(timeout.unwrap_or_default() * MAX_LIMITS_OF_RUN);
        Timeouts { timeout, total }
    }

    /// Returns the time limits for a child with any number of steps.
    pub fn for_many_steps(&self) -> Timeouts {
        Timeouts { timeout: self.timeout, total: TOTAL_LIMIT }
    }

    /// Returns the maximum time without progress and for a step.
    pub(super) fn limits(&self, step: Option<&ChildStep>) -> (Duration, Duration) {
        let (idle, all) = match step.map_or(Work::Load, |step| step.work) {
            Work::OpenDriver | Work::QueryNvml => (10, 60),
            Work::StartDriver => (30, 60),
            Work::Load | Work::LoadCuda => (20, 600),
            // Compiling a kernel takes long and reads little from the disk.
            Work::Compute => (120, 600),
            // pip has separate limits.
            Work::Fetch => return (TOTAL_LIMIT, TOTAL_LIMIT),
        };
        let all = Duration::from_secs(all).max(self.timeout.unwrap_or_default());
        (self.timeout.unwrap_or(Duration::from_secs(idle)), all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_step_has_its_own_limit() {
        let step = |work| ChildStep { work, text: String::new(), part: None };
        let limit = |work| Timeouts::new(None).limits(Some(&step(work))).0.as_secs();
        let works = [Work::OpenDriver, Work::QueryNvml, Work::StartDriver, Work::Load, Work::Compute];
        assert_eq!(works.map(limit), [10, 10, 30, 20, 120]);
    }

    #[test]
    fn a_longer_limit_for_steps_extends_the_run() {
        assert_eq!(Timeouts::new(None).total, RUN_LIMIT);
        assert_eq!(Timeouts::new(Some(Duration::from_secs(3600))).total.as_secs(), 6 * 3600);
    }
}

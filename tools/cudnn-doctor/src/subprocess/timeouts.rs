//! Limits how long the doctor waits for a child process.

use std::time::Duration;

use crate::child_report::{Step, Work};

/// The longest time of any child, whatever it reports.
const TOTAL_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

/// The same for one that fetches nothing: neither steps nor reading extend it.
const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// A user's limit for each step extends it to this many times that limit: the longest run has six steps.
const MAX_LIMITS_OF_RUN: u32 = 6;

/// The time for which a command waits for each of its child processes while that makes no progress. What one child wastes
/// takes nothing from the next: a driver that hangs must not make cuDNN look as if it did.
pub(crate) struct Timeouts {
    /// The user's limit for each step.
    timeout: Option<Duration>,
    /// The longest time of a child in all.
    pub(super) total: Duration,
}

impl Timeouts {
    /// Returns the timeouts of one command. A limit of the user applies to each step.
    pub(crate) fn new(timeout: Option<Duration>) -> Timeouts {
        let total = RUN_LIMIT.max(timeout.unwrap_or_default() * MAX_LIMITS_OF_RUN);
        Timeouts { timeout, total }
    }

    /// The same for a child that has any number of steps.
    pub(crate) fn for_many_steps(&self) -> Timeouts {
        Timeouts { timeout: self.timeout, total: TOTAL_LIMIT }
    }

    /// How long a step may make no progress, and how long it may take, even if it reads all the time.
    pub(super) fn limits(&self, step: Option<&Step>) -> (Duration, Duration) {
        let (idle, all) = match step.map_or(Work::Load, |step| step.work) {
            Work::OpenDriver | Work::QueryNvml => (10, 60),
            Work::StartDriver => (30, 60),
            Work::Load | Work::LoadCuda => (20, 600),
            // Compiling a kernel reads nothing.
            Work::Compute => (120, 600),
            // pip has limits of its own.
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
        let step = |work| Step { work, text: String::new() };
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

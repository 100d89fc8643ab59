//! How long the doctor waits for a child process: for each step without progress, for each step in all, and for the run.

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
pub(crate) struct Patience {
    /// The user's limit for each step.
    timeout: Option<Duration>,
    /// The longest time of a child in all.
    total: Duration,
}

impl Patience {
    /// The patience of one command. With a limit, each step has that one.
    pub(crate) fn new(timeout: Option<Duration>) -> Patience {
        let total = RUN_LIMIT.max(timeout.unwrap_or_default() * MAX_LIMITS_OF_RUN);
        Patience { timeout, total }
    }

    /// The same for a child that has any number of steps.
    pub(crate) fn for_many_steps(&self) -> Patience {
        Patience { timeout: self.timeout, total: TOTAL_LIMIT }
    }

    /// How long a step may make no progress.
    pub(super) fn limit(&self, step: Option<&Step>) -> Duration {
        let work = step.map_or(Work::Load, |step| step.work);
        let seconds = match work {
            Work::OpenDriver | Work::QueryNvml => 10,
            Work::Load | Work::LoadCuda => 20,
            Work::StartDriver => 30,
            // Compiling a kernel reads nothing.
            Work::Compute => 120,
            // pip has limits of its own.
            Work::Fetch => return TOTAL_LIMIT,
        };
        self.timeout.unwrap_or(Duration::from_secs(seconds))
    }

    /// How long a step may take, even if it reads all the time.
    pub(super) fn step_limit(&self, step: Option<&Step>) -> Duration {
        let seconds = match step.map(|step| step.work) {
            Some(Work::OpenDriver | Work::QueryNvml | Work::StartDriver) => 60,
            Some(Work::Fetch) => return TOTAL_LIMIT,
            _ => 600,
        };
        Duration::from_secs(seconds).max(self.timeout.unwrap_or_default())
    }

    /// How long a child may take in all, whatever it reports or reads. One on the doctor's terminal may fetch a release.
    pub(super) fn total(&self, has_session: bool) -> Duration {
        if has_session { self.total } else { TOTAL_LIMIT }
    }

    /// The same patience with another limit for a child in all.
    #[cfg(test)]
    pub(super) fn with_total(self, total: Duration) -> Patience {
        Patience { total, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_step_has_its_own_limit() {
        let step = |work| Step { work, text: String::new() };
        let limit = |work| Patience::new(None).limit(Some(&step(work))).as_secs();
        let works = [Work::OpenDriver, Work::QueryNvml, Work::StartDriver, Work::Load, Work::Compute];
        assert_eq!(works.map(limit), [10, 10, 30, 20, 120]);
    }

    #[test]
    fn a_longer_limit_for_steps_extends_the_run() {
        assert_eq!(Patience::new(None).total(true), RUN_LIMIT);
        assert_eq!(Patience::new(Some(Duration::from_secs(3600))).total(true).as_secs(), 6 * 3600);
    }
}

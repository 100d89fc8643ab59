//! How long the doctor waits for a child process: for each step without progress, for each step in all, and for the run.

use std::cell::Cell;
use std::time::Duration;

use crate::child_report::{Step, Work};

/// The longest time of any child, whatever it reports.
const TOTAL_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

/// The same for one that fetches nothing: neither steps nor reading extend it.
const RUN_LIMIT: Duration = Duration::from_secs(20 * 60);

/// A user's limit for each step extends it to this many times that limit: the longest run has six steps.
const MAX_LIMITS_OF_RUN: u32 = 6;

/// The time for which a command waits for its child processes while they make no progress.
pub(crate) struct Patience {
    /// The user's limit for each step.
    timeout: Option<Duration>,
    /// What is left for all steps together.
    left: Cell<Duration>,
    /// The longest time of a child in all.
    total: Duration,
}

impl Patience {
    /// The patience of one command. With a limit, each step has that one.
    pub(crate) fn new(timeout: Option<Duration>) -> Patience {
        let total = RUN_LIMIT.max(timeout.unwrap_or_default() * MAX_LIMITS_OF_RUN);
        Patience { timeout, left: Cell::new(Duration::from_secs(30)), total }
    }

    /// How long a step may make no progress.
    pub(super) fn limit(&self, step: Option<&Step>) -> Duration {
        let work = step.map_or(Work::Load, |step| step.work);
        let seconds = match work {
            Work::OpenDriver => 10,
            Work::Load => 20,
            Work::StartDriver => 30,
            // Compiling a kernel reads nothing.
            Work::Compute => 120,
            // pip has limits of its own.
            Work::Fetch => return TOTAL_LIMIT,
        };
        let limit = Duration::from_secs(seconds);
        match self.timeout {
            Some(timeout) => timeout,
            None if work == Work::Compute => limit,
            None => limit.min(self.left.get()),
        }
    }

    /// How long a step may take, even if it reads all the time.
    pub(super) fn step_limit(&self, step: Option<&Step>) -> Duration {
        let seconds = match step.map(|step| step.work) {
            Some(Work::OpenDriver | Work::StartDriver) => 60,
            Some(Work::Fetch) => return TOTAL_LIMIT,
            _ => 600,
        };
        Duration::from_secs(seconds).max(self.timeout.unwrap_or_default())
    }

    /// How long a child may take in all, whatever it reports or reads. One on the doctor's terminal may fetch a release.
    pub(super) fn total(&self, has_session: bool) -> Duration {
        if has_session { self.total } else { TOTAL_LIMIT }
    }

    /// Takes a time without progress from what is left for all steps.
    pub(super) fn use_up(&self, time: Duration) {
        self.left.set(self.left.get().saturating_sub(time));
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
    fn all_children_of_a_command_share_the_time_without_progress() {
        let step = |work| Step { work, text: String::new() };
        let patience = Patience::new(None);
        assert_eq!(patience.limit(Some(&step(Work::StartDriver))).as_secs(), 30);
        patience.use_up(Duration::from_secs(25));
        assert_eq!(patience.limit(Some(&step(Work::Load))).as_secs(), 5);
        assert_eq!(patience.limit(Some(&step(Work::Compute))).as_secs(), 120);
    }

    #[test]
    fn a_longer_limit_for_steps_extends_the_run() {
        assert_eq!(Patience::new(None).total(true), RUN_LIMIT);
        assert_eq!(Patience::new(Some(Duration::from_secs(3600))).total(true).as_secs(), 6 * 3600);
    }
}

//! What an attempt came to, kept for all who need it: a success for ever, a failure for a while. What made it fail may
//! pass: a program may have had no descriptor left, or loads the library with the run path to cuDNN later.
//!
//! The pause before the next attempt doubles, so attempts, and the failures that they leak, grow with the logarithm of
//! the time. A search is also made again when the process has loaded something since.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::dl::objects::load_count;
use crate::error::Failure;
use crate::sync::once::RaceOnce;

/// A result that many callers share.
pub(crate) type Shared<T> = Result<T, Arc<Failure>>;

/// The pause after the first failure, in milliseconds.
const FIRST_PAUSE: u64 = 10;
/// After this many failures only time counts: a program may load and unload plugins for ever.
const MAX_WATCHED: u32 = 256;

/// When to forget a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Somebody asks to try again.
    Now,
    /// Another attempt is due.
    Due,
}

/// One attempt.
pub(crate) struct Attempt<T> {
    pub(crate) outcome: Shared<T>,
    ended: Instant,
    /// In milliseconds.
    pause: u64,
    /// What the process had loaded before the attempt, if loading more makes another one due.
    loads: Option<u64>,
}

/// The last attempt, and what the next pause depends on.
pub(crate) struct Attempts<T: 'static> {
    last: RaceOnce<Attempt<T>>,
    /// The next one, in milliseconds.
    pause: AtomicU64,
    failures: AtomicU32,
    watches_loads: bool,
}

impl<T> Attempts<T> {
    /// No attempt yet.
    pub(crate) const fn new(watches_loads: bool) -> Self {
        Attempts {
            last: RaceOnce::new(),
            pause: AtomicU64::new(FIRST_PAUSE),
            failures: AtomicU32::new(0),
            watches_loads,
        }
    }
}

impl<T: Send + Sync> Attempts<T> {
    pub(crate) fn last(&self) -> Option<&'static Attempt<T>> {
        self.last.get()
    }

    /// What succeeded, if something has.
    pub(crate) fn success(&self) -> Option<&'static T> {
        self.last()?.outcome.as_ref().ok()
    }

    /// The last attempt, if it failed and is to be forgotten now.
    pub(crate) fn failed(&self, when: When) -> Option<&'static Attempt<T>> {
        self.last().filter(|last| last.outcome.is_err() && (when == When::Now || self.is_due(last)))
    }

    fn is_due(&self, last: &Attempt<T>) -> bool {
        if last.ended.elapsed() >= Duration::from_millis(last.pause) {
            // Attempts for another reason leave the pause as it is.
            let doubled = last.pause.saturating_mul(2);
            let _ = self.pause.compare_exchange(last.pause, doubled, Ordering::Relaxed, Ordering::Relaxed);
            return true;
        }
        last.loads.is_some_and(|loads| loads != load_count())
    }

    /// The next use tries again.
    pub(crate) fn forget(&self, attempt: &'static Attempt<T>) {
        self.last.reset(attempt);
    }

    /// What the last attempt came to, or one that is made now.
    pub(crate) fn get_or_try(&self, attempt: impl Fn() -> Shared<T>) -> &'static Shared<T> {
        let attempt = || {
            let is_watched = self.watches_loads && self.failures.load(Ordering::Relaxed) < MAX_WATCHED;
            let loads = is_watched.then(load_count);
            let outcome = attempt();
            self.failures.fetch_add(outcome.is_err().into(), Ordering::Relaxed);
            Attempt { outcome, ended: Instant::now(), pause: self.pause.load(Ordering::Relaxed), loads }
        };
        &self.last.get_or_init(attempt).outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LoadErrorKind;

    fn failure() -> Shared<u32> {
        Err(Arc::new(Failure { kind: LoadErrorKind::NoInstallation, installation: None, rejected: Arc::default() }))
    }

    /// A program that asks all the time makes about as many attempts as its time can be halved.
    #[test]
    fn the_pauses_between_attempts_double() {
        static ATTEMPTS: Attempts<u32> = Attempts::new(false);
        let (start, made) = (Instant::now(), AtomicU32::new(0));
        while start.elapsed() < Duration::from_millis(100) || made.load(Ordering::Relaxed) < 4 {
            if let Some(failed) = ATTEMPTS.failed(When::Due) {
                ATTEMPTS.forget(failed);
            }
            ATTEMPTS.get_or_try(|| {
                made.fetch_add(1, Ordering::Relaxed);
                failure()
            });
        }
        // At 0, 10, 30, 70 milliseconds and so on, or later.
        let most = 2 + (start.elapsed().as_millis() / u128::from(FIRST_PAUSE)).ilog2();
        assert!(made.load(Ordering::Relaxed) <= most, "{made:?} {most}");
    }

    #[test]
    fn a_failure_is_forgotten_at_once_on_request_and_a_success_never() {
        static ATTEMPTS: Attempts<u32> = Attempts::new(false);
        assert!(ATTEMPTS.get_or_try(failure).is_err());
        assert!(ATTEMPTS.get_or_try(|| Ok(1)).is_err() && ATTEMPTS.success().is_none());
        if let Some(failed) = ATTEMPTS.failed(When::Now) {
            ATTEMPTS.forget(failed);
        }
        assert_eq!(ATTEMPTS.get_or_try(|| Ok(2)).as_ref().ok(), Some(&2));
        std::thread::sleep(Duration::from_millis(FIRST_PAUSE * 2));
        assert!(ATTEMPTS.failed(When::Now).is_none() && ATTEMPTS.failed(When::Due).is_none());
        assert_eq!(ATTEMPTS.success(), Some(&2));
    }
}

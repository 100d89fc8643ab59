//! Caches the result of searching or loading: success permanently, failure with exponential backoff. The cause of a
//! failure may be temporary. For example, the process may have run out of file descriptors, or it may later load a
//! library with a run path to cuDNN.
//!
//! The pause before the next attempt doubles. As a result, the number of attempts and of leaked failures grows
//! logarithmically with time. A failed search is also repeated after the process has loaded other libraries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::dl::objects::load_count;
use crate::error::Failure;
use crate::sync::once::RaceOnce;

/// A result that several callers share.
pub(crate) type Shared<T> = Result<T, Arc<Failure>>;

/// The pause after the first failure, in milliseconds.
const FIRST_PAUSE: u64 = 10;
/// After this many failures, only time triggers a retry, because a program may load and unload plugins endlessly.
const MAX_WATCHED: u32 = 256;

/// When to discard a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Immediately, because the caller requested a retry.
    Now,
    /// If the next attempt is due.
    Due,
}

/// A finished attempt.
pub(crate) struct Attempt<T> {
    pub(crate) outcome: Shared<T>,
    ended: Instant,
    /// In milliseconds.
    pause: u64,
    /// The load count of the process before the attempt, if later loads trigger a retry.
    loads: Option<u64>,
}

/// The last attempt and the state that determines the next pause.
pub(crate) struct Attempts<T: 'static> {
    last: RaceOnce<Attempt<T>>,
    /// The next pause, in milliseconds.
    pause: AtomicU64,
    failures: AtomicU32,
    watches_loads: bool,
}

impl<T> Attempts<T> {
    /// Creates the state before the first attempt.
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

    /// Returns the cached value, if an attempt has succeeded.
    pub(crate) fn success(&self) -> Option<&'static T> {
        self.last()?.outcome.as_ref().ok()
    }

    /// Returns the last attempt, if it failed and should be discarded now.
    pub(crate) fn failed(&self, when: When) -> Option<&'static Attempt<T>> {
        self.last().filter(|last| last.outcome.is_err() && (when == When::Now || self.is_due(last)))
    }

    fn is_due(&self, last: &Attempt<T>) -> bool {
        if last.ended.elapsed() >= Duration::from_millis(last.pause) {
            // Attempts for other reasons leave the pause unchanged.
            let doubled = last.pause.saturating_mul(2);
            let _ = self.pause.compare_exchange(last.pause, doubled, Ordering::Relaxed, Ordering::Relaxed);
            return true;
        }
        last.loads.is_some_and(|loads| loads != load_count())
    }

    /// Discards the attempt and makes the next use try again.
    pub(crate) fn forget(&self, attempt: &'static Attempt<T>) {
        self.last.reset(attempt);
    }

    /// Returns the result of the last attempt, or makes an attempt now.
    pub(crate) fn get_or_try(&self, attempt: impl FnOnce() -> Shared<T>) -> &'static Shared<T> {
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

    /// A program that retries constantly makes a number of attempts that is logarithmic in time.
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
        // At 0, 10, 30, 70 ms and so on, or later.
        let most = 2 + (start.elapsed().as_millis() / u128::from(FIRST_PAUSE)).ilog2();
        assert!(made.load(Ordering::Relaxed) <= most, "{made:?} {most}");
    }

    #[test]
    fn failures_are_discarded_on_request_and_successes_are_permanent() {
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

//! Caches the result of searching or loading: success permanently, failure with exponential backoff. The cause of a
//! failure may be temporary. For example, the process may have run out of file descriptors, or it may later load a
//! library with a run path to cuDNN.
//!
//! The pause before the next attempt doubles, so that the number of attempts grows logarithmically with time. A failed
//! search is also repeated after the process has loaded other libraries. A program may request any number of attempts.
//! Results are never freed, so a result that equals the one before is published again.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cudnn_os::clock;

use crate::dl::objects::load_count;
use crate::error::Failure;
use crate::sync::once::{Made, RaceOnce};

/// A result that several callers share.
pub(crate) type Shared<T> = Result<T, Arc<Failure>>;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// After this many failures, only time triggers a retry, because a program may load and unload plugins endlessly.
const MAX_WATCHED: u32 = 256;
/// No load of a library triggers a retry.
const UNWATCHED: u64 = u64::MAX;

/// When to discard a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Immediately, because the caller requested a retry.
    Now,
    /// If the next attempt is due.
    Due,
}

/// The result of the last attempt and the state that determines the next one. Times are in nanoseconds.
pub(crate) struct Attempts<T: 'static> {
    last: RaceOnce<Shared<T>>,
    /// The last result that was discarded.
    discarded: RaceOnce<&'static Shared<T>>,
    /// The end of the last attempt.
    ended: AtomicU64,
    /// The pause after the last attempt.
    pause: AtomicU64,
    /// The pause after the next attempt.
    next_pause: AtomicU64,
    /// The load count of the process before the last attempt, or [`UNWATCHED`].
    loads: AtomicU64,
    failures: AtomicU32,
    watches_loads: bool,
}

impl<T> Attempts<T> {
    /// Creates the state before the first attempt.
    pub(crate) const fn new(watches_loads: bool) -> Self {
        Attempts {
            last: RaceOnce::new(),
            discarded: RaceOnce::new(),
            ended: AtomicU64::new(0),
            pause: AtomicU64::new(0),
            next_pause: AtomicU64::new(FIRST_PAUSE.as_nanos() as u64),
            loads: AtomicU64::new(UNWATCHED),
            failures: AtomicU32::new(0),
            watches_loads,
        }
    }
}

impl<T: PartialEq + Send + Sync> Attempts<T> {
    pub(crate) fn last(&self) -> Option<&'static Shared<T>> {
        self.last.get()
    }

    /// Returns the cached value, if an attempt has succeeded.
    pub(crate) fn success(&self) -> Option<&'static T> {
        self.last()?.as_ref().ok()
    }

    /// Returns the result of the last attempt, if it failed and should be discarded now.
    pub(crate) fn failed(&self, when: When) -> Option<&'static Shared<T>> {
        self.last().filter(|last| last.is_err() && (when == When::Now || self.is_due()))
    }

    fn is_due(&self) -> bool {
        let pause = self.pause.load(Ordering::Relaxed);
        if clock::monotonic().saturating_sub(self.ended.load(Ordering::Relaxed)) >= pause {
            // Attempts for other reasons leave the pause unchanged.
            let doubled = pause.saturating_mul(2);
            let _ = self.next_pause.compare_exchange(pause, doubled, Ordering::Relaxed, Ordering::Relaxed);
            return true;
        }
        let loads = self.loads.load(Ordering::Relaxed);
        loads != UNWATCHED && loads != load_count()
    }

    /// Discards the result and makes the next use try again.
    pub(crate) fn forget(&self, result: &'static Shared<T>) {
        if self.discarded.get().is_none_or(|discarded| !ptr::eq(*discarded, result)) {
            self.discarded.replace(result);
        }
        self.last.reset(result);
    }

    /// Returns the result of the last attempt, or makes an attempt now.
    pub(crate) fn get_or_try(&self, attempt: impl FnOnce() -> Shared<T>) -> &'static Shared<T> {
        self.last.get_or_make(|| {
            let is_watched = self.watches_loads && self.failures.load(Ordering::Relaxed) < MAX_WATCHED;
            let loads = if is_watched { load_count() } else { UNWATCHED };
            let result = attempt();
            self.failures.fetch_add(result.is_err().into(), Ordering::Relaxed);
            self.loads.store(loads, Ordering::Relaxed);
            self.pause.store(self.next_pause.load(Ordering::Relaxed), Ordering::Relaxed);
            self.ended.store(clock::monotonic(), Ordering::Relaxed);
            match self.discarded.get() {
                Some(discarded) if *discarded == &result => Made::Again(discarded),
                _ => Made::New(result),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::error::LoadErrorKind;

    fn unknown() -> Failure {
        Failure { kind: LoadErrorKind::NoInstallation, installation: None, rejected: Arc::default() }
    }

    fn failure() -> Shared<u32> {
        Err(Arc::new(unknown()))
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
        let most = 2 + (start.elapsed().as_nanos() / FIRST_PAUSE.as_nanos()).ilog2();
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
        std::thread::sleep(FIRST_PAUSE * 2);
        assert!(ATTEMPTS.failed(When::Now).is_none() && ATTEMPTS.failed(When::Due).is_none());
        assert_eq!(ATTEMPTS.success(), Some(&2));
    }
    #[test]
    fn a_program_that_polls_leaks_a_result_only_when_it_changes() {
        static ATTEMPTS: Attempts<u32> = Attempts::new(false);
        let poll = |attempt: fn() -> Shared<u32>| {
            ATTEMPTS.last().into_iter().for_each(|last| ATTEMPTS.forget(last));
            ATTEMPTS.get_or_try(attempt)
        };
        let other = || Err(Arc::new(Failure { kind: LoadErrorKind::LibraryMissing, ..unknown() }));
        let first = poll(failure);
        assert!((0..9).all(|_| ptr::eq(poll(failure), first)));
        let changed = poll(other);
        assert!(!ptr::eq(changed, first) && ptr::eq(poll(other), changed));
        // A search can succeed any number of times, too.
        let found = poll(|| Ok(1));
        assert!(ptr::eq(poll(|| Ok(1)), found) && !ptr::eq(poll(|| Ok(2)), found));
    }
}

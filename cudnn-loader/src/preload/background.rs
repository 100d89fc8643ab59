//! Runs a preload in a background thread, and waits for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use cudnn_os::cancel::ThreadStateGuard;

use super::parts::{Devices, Preload};
use super::report::{PreloadError, PreloadReport};
use super::{critical, driver, pages, run};
use crate::dl;
use crate::error_strings::listen_if_verbose;
use crate::logging;
use crate::names::LOADER_LOCK;
use crate::sync::primitives::{Backoff, lock};
use crate::thread::reentrancy::ReentrancyGuard;
use crate::thread::spawn::{DOES_INTERNAL_WORK, is_internal_thread, spawn_detached};

type PreloadResult = Result<PreloadReport, PreloadError>;

impl Preload {
    /// Preloads and waits until the preload has finished. This is [`start`](Preload::start) and
    /// [`join`](PreloadHandle::join). Any thread may call this at any time; repeated calls are cheap.
    ///
    /// # Errors
    /// Returns the first step that failed. The other steps still run.
    pub fn run(&self) -> Result<PreloadReport, PreloadError> {
        self.clone().start().join()
    }

    /// Starts the preload in a background thread.
    ///
    /// An exit, a fork, and the end of this thread wait at most ten seconds for the current step. If a thread other
    /// than this one or the program's first thread exits the process during a step, the process can crash, because
    /// glibc then runs the destructors of half-loaded libraries first.
    ///
    /// Nothing is preloaded in a `dlmopen` namespace, where ld.so's locks do not work between threads, or if a preload
    /// itself calls this, for example through a log callback.
    pub fn start(mut self) -> PreloadHandle {
        if is_nested() {
            return PreloadHandle(Err(NESTED));
        }
        if !dl::is_in_first_namespace() {
            return PreloadHandle(Err("in a dlmopen namespace"));
        }
        // The threads of the preload do not read the environment, which the program may change at the same time.
        self.options.read_environment();
        self.page_list = pages::file_from_environment();
        logging::read_variables();
        listen_if_verbose();
        if self.devices == Devices::Current {
            self.devices = Devices::List(vec![driver::current_device()]);
        }
        critical::protect();
        let run =
            BackgroundPreload { process: std::process::id(), outcome: Mutex::new(None), has_ended: Condvar::new() };
        let run = Arc::new(run);
        let in_thread = run.clone();
        let work = move || {
            let _guard = ReentrancyGuard::enter(&DOES_INTERNAL_WORK);
            let outcome = catch_unwind(AssertUnwindSafe(|| run::run(&self)));
            if let Some(mut slot) = lock(&in_thread.outcome) {
                *slot = Some(outcome.unwrap_or_else(|_| Ok(PreloadReport::skipped("internal error"))));
            }
            in_thread.has_ended.notify_all();
        };
        PreloadHandle(spawn_detached(Box::new(work)).map(|()| run).map_err(|_| "cannot start a thread"))
    }
}

/// A preload in a background thread. It continues after the handle is dropped.
#[derive(Clone, Debug)]
pub struct PreloadHandle(
    /// Or the reason for a missing thread.
    Result<Arc<BackgroundPreload>, &'static str>,
);

/// State that a background thread shares with the handles.
#[derive(Debug)]
struct BackgroundPreload {
    process: u32,
    outcome: Mutex<Option<PreloadResult>>,
    has_ended: Condvar,
}

/// Handles are equal if they belong to the same preload, or if both have no thread for the same reason.
impl PartialEq for PreloadHandle {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (Err(one), Err(other)) => one == other,
            _ => false,
        }
    }
}

const NESTED: &str = "called by a preload";

impl PreloadHandle {
    /// Waits until the preload has finished.
    ///
    /// The report contains one skipped step if no thread was started, if a preload itself calls this, in a child that was
    /// forked after the preload had started, and in a library's constructor, where this thread holds ld.so's lock. There
    /// the call returns after about 1.2 seconds, and the preload continues after the constructor.
    ///
    /// # Errors
    /// Returns the first step that failed. The other steps still run.
    pub fn join(&self) -> Result<PreloadReport, PreloadError> {
        let outcome = match &self.0 {
            Err(reason) => Err(*reason),
            Ok(_) if is_nested() => Err(NESTED),
            Ok(_) if self.is_inherited() => Err("started by the parent"),
            Ok(run) => run.wait().ok_or(LOADER_LOCK),
        };
        outcome.unwrap_or_else(|reason| Ok(PreloadReport::skipped(reason)))
    }

    /// Returns whether the preload has finished, or belongs to the parent of this process.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let is_over = |run: &Arc<BackgroundPreload>| lock(&run.outcome).is_some_and(|outcome| outcome.is_some());
        self.is_inherited() || self.0.as_ref().map_or(true, is_over)
    }

    /// Returns whether the parent of this forked process has started the preload.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.0.as_ref().is_ok_and(|run| run.process != std::process::id())
    }
}

impl BackgroundPreload {
    /// Returns `None` if the thread waits for a lock that this thread holds.
    fn wait(&self) -> Option<PreloadResult> {
        let _guard = ThreadStateGuard::new();
        let wait = |limit| {
            let outcome = lock(&self.outcome)?;
            self.has_ended.wait_timeout_while(outcome, limit, |outcome| outcome.is_none()).ok()?.0.clone()
        };
        wait(Backoff::TIMEOUT).or_else(|| if holds_loader_lock() { None } else { wait(Duration::MAX) })
    }
}

/// Returns whether a preload has called this code, for example through a log callback, a library's constructor, or a
/// thread notification on Windows. A preload that starts there could start another one, without end.
#[must_use]
pub fn is_nested() -> bool {
    DOES_INTERNAL_WORK.get() || is_internal_thread()
}

/// Returns whether this thread holds ld.so's lock, because it is running the constructor of a library. The C library does
/// not tell who holds the lock, so another thread tries to take it.
fn holds_loader_lock() -> bool {
    let has_answered = Arc::new(AtomicBool::new(false));
    let answer = has_answered.clone();
    let asked = spawn_detached(Box::new(move || {
        dl::wait_for_lock();
        answer.store(true, Ordering::Release);
    }));
    // The owner gets the lock at once. Any other thread waits here, and gets the lock soon afterwards.
    let (mut backoff, at_once) = (Backoff::with_limit(QUIET), Duration::from_millis(1));
    let start_of_all = Instant::now();
    while asked.is_ok() && !has_answered.load(Ordering::Acquire) {
        let start = Instant::now();
        dl::wait_for_lock();
        if start.elapsed() > at_once && start_of_all.elapsed() < MAX_WAIT {
            backoff = Backoff::with_limit(QUIET);
        } else if !backoff.wait() {
            return true;
        }
    }
    asked.is_err()
}

/// The time after which a thread that is never kept waiting for ld.so's lock, unlike another one, is its owner.
const QUIET: Duration = Duration::from_millis(200);
/// A hook of `dlopen` may make the owner wait, too.
const MAX_WAIT: Duration = Duration::from_secs(10);

//! Protects the critical steps of a preload from exits and forks: library constructors, driver initialization and
//! engine registration. An exit during such a step would destroy objects under construction, and a forked child would
//! inherit a partial state.
//!
//! All waiting in this module follows these rules:
//! - It lasts at most [`LIMIT`].
//! - A thread never waits for itself or for a thread of the parent process.
//! - A thread never waits for a thread that needs ld.so's lock, because the waiting thread may hold it. Threads that
//!   need the lock check that it is free before they enter.
//! - Once exit handlers run, the remaining steps are skipped.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use cudnn_os::at_load;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::exit;
use cudnn_os::fork::call_at_forks;

use crate::dl;
use crate::sync::gate::Gate;
use crate::sync::primitives::Backoff;
use crate::thread::fork::handle_forks;
use crate::thread::spawn::DOES_INTERNAL_WORK;

/// The maximum time that an exit, a fork or a step waits. Longer than any step needs on a working system.
const LIMIT: Duration = Duration::from_secs(10);

static GATE: Gate = Gate::new();
/// The process that the gate's state belongs to.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The number of threads that are opening a library.
static OPENING: AtomicU64 = AtomicU64::new(0);
/// Incremented whenever a thread enters or leaves a section.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// The first thread has exited and closed the gate, because the process probably exits next.
static IS_CLOSED_BY_FIRST_THREAD: AtomicBool = AtomicBool::new(false);
/// The exit handlers are running.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

/// The number of [`BackgroundThread`]s.
static BACKGROUND: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of steps that this thread is in. Greater than one if a log callback starts a preload.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static EXIT_GUARD: ExitGuard = const { ExitGuard };
}

/// Makes exits and forks wait for the steps of preloads. Must be called in the thread that starts a preload.
///
/// Exits are safe at any time in the thread that starts the preload and in the thread that loaded this code. The latter
/// is usually the first thread, unless a different thread opened the library later. An exit by any other thread is safe
/// only between two steps. During a step, destructors that libraries have just registered run before [`at_exit`].
pub(super) fn protect() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    guard_this_thread();
    // Prevents the linker from dropping the entry as unreferenced.
    std::hint::black_box(&GUARD_LOADING_THREAD);
    if !IS_REGISTERED.swap(true, Ordering::SeqCst) {
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        // The handlers are never unregistered.
        dl::pin_this_library();
        register_exit_handler();
        // Registered first: a fork must wait for these sections before it waits for the short operations in them.
        handle_forks();
        call_at_forks(before_fork, after_fork, in_child);
    }
}

at_load!(GUARD_LOADING_THREAD: guard_this_thread);

extern "C" fn guard_this_thread() {
    if exit::THREADS_RUN_ON {
        let _ = EXIT_GUARD.try_with(|_| ());
    }
}

/// A slot for a background preload. The limit prevents a program from exhausting all threads by starting preloads
/// endlessly.
pub(super) struct BackgroundThread(());

impl BackgroundThread {
    const MAX: u32 = 16;

    /// Returns `None` if the limit is reached.
    pub(super) fn new() -> Option<Self> {
        let count = BACKGROUND.fetch_add(1, Ordering::SeqCst);
        let thread = BackgroundThread(());
        (count < Self::MAX).then_some(thread)
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        BACKGROUND.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Marks this thread as being in a step.
pub(super) struct CriticalSection(());

impl CriticalSection {
    /// Enters the section once no exit or fork is in progress. Returns `None` if the process is exiting. Stops waiting
    /// for a fork after [`LIMIT`].
    pub(super) fn enter() -> Option<Self> {
        let mut backoff = Backoff::with_limit(LIMIT);
        // A thread that is already inside must not wait for a thread that waits for it.
        while !is_inside() && !GATE.try_enter() {
            // Return immediately, because a destructor of the program may be waiting for the preload to finish.
            if IS_EXITING.load(Ordering::SeqCst) {
                return None;
            }
            if backoff.wait() {
                continue;
            }
            // Either a fork is taking too long, or the first thread has long exited with `pthread_exit`.
            if IS_CLOSED_BY_FIRST_THREAD.swap(false, Ordering::SeqCst) {
                GATE.open();
            }
            GATE.enter_anyway();
            break;
        }
        DEPTH.set(DEPTH.get() + 1);
        PROGRESS.fetch_add(1, Ordering::SeqCst);
        Some(CriticalSection(()))
    }
}

/// Treats each opening of a library by this thread as a critical section while `work` runs.
pub(super) fn with_critical_openings<T>(work: impl FnOnce() -> T) -> T {
    dl::around_openings(open_in_section, work)
}

fn open_in_section(open: &mut dyn FnMut()) {
    dl::wait_for_lock();
    if let Some(_section) = CriticalSection::enter() {
        OPENING.fetch_add(1, Ordering::SeqCst);
        open();
        OPENING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether all threads that are in a step are waiting for ld.so's lock, which another thread took after they
/// had seen it free. They are if a library is being opened although no thread holds the lock. An exit then stops
/// waiting, because it needs the lock itself.
fn only_wait_for_lock() -> bool {
    let own = u64::from(is_inside());
    let open_without_lock = || {
        let progress = PROGRESS.load(Ordering::SeqCst);
        // Returns when no other thread holds the lock.
        dl::wait_for_lock();
        let all_open = GATE.inside() == own + OPENING.load(Ordering::SeqCst);
        (all_open && PROGRESS.load(Ordering::SeqCst) == progress).then_some(progress)
    };
    let first = open_without_lock();
    // A thread that was just about to take the lock gets it during this pause, which the second check detects.
    std::thread::sleep(Duration::from_millis(20));
    first.is_some() && open_without_lock() == first
}

impl Drop for CriticalSection {
    fn drop(&mut self) {
        // Exit handlers run last in, first out, and the libraries have just registered theirs.
        register_exit_handler();
        DEPTH.set(DEPTH.get() - 1);
        PROGRESS.fetch_add(1, Ordering::SeqCst);
        if !is_inside() {
            GATE.leave();
        }
    }
}

/// Returns whether this thread is in a step. This happens if a step calls the program, for example a log callback or a
/// constructor.
fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Waits until the condition is true. Returns `false` if preloads make no progress for a second, because they may be
/// waiting for ld.so's lock while this thread holds it.
pub(super) fn wait_until(is_true: &dyn Fn() -> bool) -> bool {
    let _guard = ThreadStateGuard::new();
    let mut seen = PROGRESS.load(Ordering::SeqCst);
    let mut backoff = Backoff::new();
    while !is_true() {
        let progress = PROGRESS.load(Ordering::SeqCst);
        if progress != seen {
            (seen, backoff) = (progress, Backoff::new());
        } else if !backoff.wait() {
            return is_true();
        }
    }
    true
}

/// glibc runs the thread-local destructors of the exiting thread before all exit handlers, regardless of when they were
/// registered.
struct ExitGuard;

impl Drop for ExitGuard {
    fn drop(&mut self) {
        GATE.close();
        wait_until_empty(true);
        if exit::is_first_thread() {
            // Most likely an exit. No step may start before the exit handlers run.
            IS_CLOSED_BY_FIRST_THREAD.store(true, Ordering::SeqCst);
        } else {
            GATE.open();
        }
    }
}

fn register_exit_handler() {
    /// More than a process ever needs, because a repeated preload loads no new libraries.
    const MAX_HANDLERS: u32 = 64;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if exit::THREADS_RUN_ON && COUNT.fetch_add(1, Ordering::Relaxed) < MAX_HANDLERS {
        exit::call_at_exit(at_exit);
    }
}

extern "C" fn at_exit() {
    IS_EXITING.store(true, Ordering::SeqCst);
    GATE.close();
    wait_until_empty(true);
}

unsafe extern "C" fn before_fork() {
    GATE.close();
    wait_until_empty(false);
}

unsafe extern "C" fn after_fork() {
    GATE.open();
}

/// Resets the state, because the child has only this thread and no preloads.
unsafe extern "C" fn in_child() {
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    IS_CLOSED_BY_FIRST_THREAD.store(false, Ordering::SeqCst);
    IS_EXITING.store(false, Ordering::SeqCst);
    OPENING.store(0, Ordering::SeqCst);
    // Counts this thread if it is a background thread.
    BACKGROUND.store(u32::from(DOES_INTERNAL_WORK.get()), Ordering::SeqCst);
    GATE.reset(u64::from(is_inside()));
}

/// Waits until no other thread is in a step. An exit runs several handlers, but waits only once for a step that does
/// not finish.
fn wait_until_empty(is_exit: bool) {
    /// The time after which an exit checks whether waiting can help.
    const EXIT_CHECK_DELAY: Duration = Duration::from_millis(500);
    /// The progress count when an earlier call stopped waiting.
    static GIVEN_UP_AT: AtomicU64 = AtomicU64::new(u64::MAX);
    let own = u64::from(is_inside());
    if GATE.inside() <= own {
        return;
    }
    let _guard = ThreadStateGuard::new();
    let progress = PROGRESS.load(Ordering::SeqCst);
    if GIVEN_UP_AT.load(Ordering::SeqCst) == progress {
        return;
    }
    let mut backoff = Backoff::with_limit(if is_exit { EXIT_CHECK_DELAY } else { LIMIT });
    let mut has_looked = !is_exit;
    // Fork handlers do not run in a child of `vfork` or `clone`.
    let is_this_process = || PROCESS.load(Ordering::SeqCst) == std::process::id();
    while GATE.inside() > own && is_this_process() {
        if !backoff.wait() {
            if has_looked || only_wait_for_lock() {
                return GIVEN_UP_AT.store(progress, Ordering::SeqCst);
            }
            (has_looked, backoff) = (true, Backoff::with_limit(LIMIT));
        }
    }
}

//! The steps of a preload that an exit or a fork must not cut into: a library's constructors, the start of the driver,
//! the registration of engines. An exit would destroy what they are building; a forked child would inherit half of it.
//!
//! Rules for everything that waits here: never for more than [`LIMIT`], never for the waiting thread itself, never for
//! a thread of the parent process, and never for a thread that waits for ld.so's lock, which the waiting thread may
//! have: a thread that needs the lock sees it free before it enters. When exit handlers run, the other steps are skipped.

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

/// The time for which an exit, a fork, or a step waits. Longer than any step takes on a working system.
const LIMIT: Duration = Duration::from_secs(10);

static GATE: Gate = Gate::new();
/// The process to which the state of the gate belongs.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The number of threads in a step that opens a library.
static OPENING: AtomicU64 = AtomicU64::new(0);
/// Counts each time that a thread enters or leaves a section.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// The first thread has closed the gate for the exit that probably follows its end.
static IS_CLOSED_BY_FIRST_THREAD: AtomicBool = AtomicBool::new(false);
/// The exit handlers run.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

/// The number of [`BackgroundThread`]s.
static BACKGROUND: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of steps that this thread is in: more than one if a log callback starts a preload.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static EXIT_GUARD: ExitGuard = const { ExitGuard };
}

/// Makes exits and forks wait for the steps of preloads. To be called in the thread that starts one.
///
/// An exit by this thread is safe at any moment, and so is one by the thread that loaded this code: the first thread,
/// but in a program that opens the library later in another. An exit by any other thread is safe between two steps: in
/// the middle of one, destructors that the libraries have just registered run before [`at_exit`].
pub(super) fn protect() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    guard_this_thread();
    // Keeps the entry where the linker drops what nothing refers to.
    std::hint::black_box(&GUARD_LOADING_THREAD);
    if !IS_REGISTERED.swap(true, Ordering::SeqCst) {
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        // The handlers live as long as the process.
        dl::pin_this_library();
        register_exit_handler();
        // A fork waits for these sections before it waits for the short work in them.
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

/// One of the threads that may preload in the background. There are few, so that a program that starts preloads without
/// end does not run out of threads.
pub(super) struct BackgroundThread(());

impl BackgroundThread {
    const MAX: u32 = 16;

    /// `None` if there are as many as may be.
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

/// A thread is in a step.
pub(super) struct CriticalSection(());

impl CriticalSection {
    /// Enters as soon as no exit and no fork is under way. `None` if the process ends; a fork that takes more than
    /// [`LIMIT`] is not waited for.
    pub(super) fn enter() -> Option<Self> {
        let mut backoff = Backoff::with_limit(LIMIT);
        // A thread that is inside already must not wait for somebody who waits for it.
        while !is_inside() && !GATE.try_enter() {
            // At once: a destructor of the program may wait for the end of the preload.
            if IS_EXITING.load(Ordering::SeqCst) {
                return None;
            }
            if backoff.wait() {
                continue;
            }
            // A fork that takes too long, or the first thread has ended by `pthread_exit`, long ago.
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

/// Makes each opening of a library by this thread a critical section, as long as the work runs.
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

/// Whether all threads that are in a step wait for ld.so's lock, which another thread took after they had seen it free.
/// A thread that opens a library without having the lock waits for it. For an exit, which needs the lock anyway.
fn only_wait_for_lock() -> bool {
    let own = u64::from(is_inside());
    let open_without_lock = || {
        let progress = PROGRESS.load(Ordering::SeqCst);
        // Ends when no other thread has the lock.
        dl::wait_for_lock();
        let all_open = GATE.inside() == own + OPENING.load(Ordering::SeqCst);
        (all_open && PROGRESS.load(Ordering::SeqCst) == progress).then_some(progress)
    };
    let first = open_without_lock();
    // A thread that just has not come to the lock yet comes to it meanwhile, and has it at the second look.
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

/// Whether this thread is in a step, which happens where a step calls the program: a log callback, a constructor.
fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Waits until this is true. `false` if preloads make no progress for a second: they may wait for ld.so's lock, which
/// this thread may have.
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

/// glibc runs the destructors of the exiting thread before all exit handlers, whoever registered them last.
struct ExitGuard;

impl Drop for ExitGuard {
    fn drop(&mut self) {
        GATE.close();
        wait_until_empty(true);
        if exit::is_first_thread() {
            // An exit, most probably. No step may begin before the exit handlers run.
            IS_CLOSED_BY_FIRST_THREAD.store(true, Ordering::SeqCst);
        } else {
            GATE.open();
        }
    }
}

fn register_exit_handler() {
    /// More than a process ever loads; a preload that is repeated loads nothing new.
    const ENOUGH: u32 = 64;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if exit::THREADS_RUN_ON && COUNT.fetch_add(1, Ordering::Relaxed) < ENOUGH {
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

/// The child has only this thread, and forgets all preloads of its parent.
unsafe extern "C" fn in_child() {
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    IS_CLOSED_BY_FIRST_THREAD.store(false, Ordering::SeqCst);
    IS_EXITING.store(false, Ordering::SeqCst);
    OPENING.store(0, Ordering::SeqCst);
    // Of this thread, if it is such a one.
    BACKGROUND.store(u32::from(DOES_INTERNAL_WORK.get()), Ordering::SeqCst);
    GATE.reset(u64::from(is_inside()));
}

/// Waits until no other thread is in a step. An exit runs several handlers, but waits for a step that does not end once.
fn wait_until_empty(is_exit: bool) {
    /// The time after which an exit looks whether waiting is of use.
    const PATIENCE: Duration = Duration::from_millis(500);
    /// The progress at which an earlier call gave up.
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
    let mut backoff = Backoff::with_limit(if is_exit { PATIENCE } else { LIMIT });
    let mut has_looked = !is_exit;
    // A child of `vfork` or `clone` has run no handler.
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

//! Protects the critical steps of a preload from exits and forks: library constructors, driver initialization and
//! engine registration. An exit during such a step would destroy objects under construction, and a forked child would
//! inherit a partial state.
//!
//! All waiting in this module follows these rules:
//! - It lasts at most [`LIMIT`].
//! - A thread never waits for itself or for a thread of the parent process.
//! - A thread enters a section only after it has seen ld.so's lock free, because the thread that holds the lock may be
//!   waiting for the sections.
//! - Once exit handlers run, the remaining steps are skipped.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cudnn_os::at_load;
use cudnn_os::exit;
use cudnn_os::fork::call_at_forks;

use crate::dl;
use crate::thread::fork::handle_forks;
use crate::thread::sections::Sections;

/// The maximum time that an exit, a fork or a step waits. Longer than any step needs on a working system.
const LIMIT: Duration = Duration::from_secs(10);

static STEPS: Sections = Sections::new(&IS_INSIDE, LIMIT);
/// The first thread has exited and closed the steps, because the process probably exits next.
static IS_CLOSED_BY_FIRST_THREAD: AtomicBool = AtomicBool::new(false);
/// The exit handlers are running.
static IS_EXITING: AtomicBool = AtomicBool::new(false);
/// An exit has waited for [`LIMIT`]. It runs several handlers, but waits only once for a step that does not finish.
static HAS_EXIT_WAITED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is in a section. A step may call the program, for example a log callback or a constructor.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
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
        STEPS.start();
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

/// Marks this thread as being in a step.
pub(super) struct CriticalSection(());

impl CriticalSection {
    /// Enters the section once no exit or fork is in progress. Returns `None` if the process is exiting. Stops waiting
    /// for a fork after [`LIMIT`].
    pub(super) fn enter() -> Option<Self> {
        dl::wait_for_lock();
        // Gives up immediately, because a destructor of the program may be waiting for the preload to finish.
        let is_in_time = STEPS.enter(|| IS_EXITING.load(Ordering::SeqCst))?;
        // Either a fork is taking too long, or the first thread has long exited with `pthread_exit`.
        if !is_in_time && IS_CLOSED_BY_FIRST_THREAD.swap(false, Ordering::SeqCst) {
            STEPS.open();
        }
        Some(CriticalSection(()))
    }
}

impl Drop for CriticalSection {
    fn drop(&mut self) {
        // Exit handlers run last in, first out, and the libraries have just registered theirs.
        register_exit_handler();
        STEPS.leave();
    }
}

/// glibc runs the thread-local destructors of the exiting thread before all exit handlers, regardless of when they were
/// registered.
struct ExitGuard;

impl Drop for ExitGuard {
    fn drop(&mut self) {
        close_for_exit();
        if exit::is_first_thread() {
            // Most likely an exit. No step may start before the exit handlers run.
            IS_CLOSED_BY_FIRST_THREAD.store(true, Ordering::SeqCst);
        } else {
            STEPS.open();
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
    close_for_exit();
}

fn close_for_exit() {
    STEPS.close();
    if !HAS_EXIT_WAITED.load(Ordering::SeqCst) && !STEPS.wait_until_empty() {
        HAS_EXIT_WAITED.store(true, Ordering::SeqCst);
    }
}

unsafe extern "C" fn before_fork() {
    STEPS.close();
    STEPS.wait_until_empty();
}

unsafe extern "C" fn after_fork() {
    STEPS.open();
}

/// Resets the state, because the child has only this thread and no preloads.
unsafe extern "C" fn in_child() {
    for flag in [&IS_CLOSED_BY_FIRST_THREAD, &IS_EXITING, &HAS_EXIT_WAITED] {
        flag.store(false, Ordering::SeqCst);
    }
    STEPS.reset_in_child();
}

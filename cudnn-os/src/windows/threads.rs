//! Threads, started by the system's call. Windows calls the program in a new thread before its work begins (DllMain, TLS
//! callbacks), and std ends the process if such code uses std in one of std's threads, which is half-made then. So nothing
//! here uses what std knows of a thread.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windows_sys::Win32::Foundation::{HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    CREATE_SUSPENDED, CreateThread, GetCurrentThreadId, ResumeThread, STACK_SIZE_PARAM_IS_A_RESERVATION,
    SetThreadDescription, WaitForSingleObject,
};

use super::wide::wide;
use crate::lock::lock_within;

/// Work for a thread.
pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The time for which a thread waits for the list.
const LIMIT: Duration = Duration::from_secs(1);

/// As std's.
const STACK_SIZE: usize = 2 << 20;

/// The threads that this module has started: their numbers, which the system gives to no other thread while the handle is open.
static THREADS: Mutex<Vec<(u32, Arc<OwnedHandle>)>> = Mutex::new(Vec::new());

/// Returns the number of this thread, unique in the system.
pub fn id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { GetCurrentThreadId() }
}

/// Whether this crate has started this thread, which may not have come to its work yet, or may be past it.
pub fn is_internal() -> bool {
    let this = id();
    lock_within(&THREADS, LIMIT).is_some_and(|threads| threads.iter().any(|(number, _)| *number == this))
}

/// Starts a thread that nobody joins.
///
/// # Errors
/// The system has no thread left.
pub fn start(name: &str, work: Work<'static>) -> io::Result<()> {
    Thread::start(name, work).map(drop)
}

/// The threads that end before [`scope`] returns.
pub struct Scope<'scope, 'env: 'scope> {
    threads: Arc<Mutex<Vec<Thread>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs code that starts threads, and waits for the end of their work.
pub fn scope<'env, T>(code: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let scope = Scope { threads: threads.clone(), scope: PhantomData, env: PhantomData };
    // Also if the code panics.
    let _joined = JoinAll(threads);
    code(&scope)
}

struct JoinAll(Arc<Mutex<Vec<Thread>>>);

impl Drop for JoinAll {
    #[inline(never)]
    fn drop(&mut self) {
        let next = || self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(thread) = next() {
            thread.wait();
        }
    }
}

/// A thread in a scope.
pub struct ScopedThread<'scope, T> {
    thread: Thread,
    scope: PhantomData<(&'scope (), T)>,
}

impl ScopedThread<'_, ()> {
    /// Waits for the end of its work.
    ///
    /// # Errors
    /// None: std's threads return a panic.
    pub fn join(self) -> io::Result<()> {
        self.thread.wait();
        Ok(())
    }
}

/// Starts a thread in a scope.
///
/// # Errors
/// The system has no thread left.
pub fn start_scoped<'scope>(
    name: &str,
    scope: &'scope Scope<'scope, '_>,
    work: Work<'scope>,
) -> io::Result<ScopedThread<'scope, ()>> {
    // SAFETY: the scope waits until the work has run and is dropped, and ends before what the work borrows.
    let work = unsafe { std::mem::transmute::<Work<'scope>, Work<'static>>(work) };
    let thread = Thread::start(name, work)?;
    scope.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread.clone());
    Ok(ScopedThread { thread, scope: PhantomData })
}

/// A thread that was started.
#[derive(Clone)]
struct Thread {
    handle: Arc<OwnedHandle>,
    /// Its work has ended. The thread itself ends later, when Windows' loader has told all DLLs.
    is_done: Arc<AtomicBool>,
}

/// What a thread is given.
struct Start {
    work: Work<'static>,
    is_done: Arc<AtomicBool>,
}

impl Thread {
    #[inline(never)]
    fn start(name: &str, work: Work<'static>) -> io::Result<Thread> {
        let is_done = Arc::new(AtomicBool::new(false));
        let start = Box::into_raw(Box::new(Start { work, is_done: is_done.clone() }));
        let flags = CREATE_SUSPENDED | STACK_SIZE_PARAM_IS_A_RESERVATION;
        let mut number = 0;
        // SAFETY: the function takes what it is given here, once.
        let handle = unsafe { CreateThread(null(), STACK_SIZE, Some(run), start.cast(), flags, &raw mut number) };
        if handle.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: there is no thread that would take it.
            drop(unsafe { Box::from_raw(start) });
            return Err(error);
        }
        // SAFETY: the handle was just made, and nothing else closes it.
        let handle = Arc::new(unsafe { OwnedHandle::from_raw_handle(handle) });
        if let Some(mut threads) = lock_within(&THREADS, LIMIT) {
            threads.retain(|(_, other)| !has_ended(other, 0));
            threads.push((number, handle.clone()));
        }
        if let Some(name) = wide(name.as_ref()) {
            // SAFETY: the handle is open, and the name ends in NUL.
            unsafe { SetThreadDescription(raw(&handle), name.as_ptr()) };
        }
        // SAFETY: the handle is open.
        unsafe { ResumeThread(raw(&handle)) };
        Ok(Thread { handle, is_done })
    }

    /// Waits for the end of its work, or of the thread, if the program has ended that.
    fn wait(&self) {
        const PAUSE: u32 = 10;
        while !self.is_done.load(Ordering::Acquire) && !has_ended(&self.handle, PAUSE) {}
    }
}

fn raw(handle: &OwnedHandle) -> HANDLE {
    handle.as_raw_handle().cast()
}

/// Whether a thread ends within so many milliseconds.
fn has_ended(thread: &OwnedHandle, milliseconds: u32) -> bool {
    // SAFETY: the handle is open.
    unsafe { WaitForSingleObject(raw(thread), milliseconds) == WAIT_OBJECT_0 }
}

/// What a thread does.
unsafe extern "system" fn run(start: *mut c_void) -> u32 {
    // SAFETY: made by `Thread::start` for this thread alone.
    let Start { work, is_done } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    let _ = catch_unwind(AssertUnwindSafe(work));
    is_done.store(true, Ordering::Release);
    0
}

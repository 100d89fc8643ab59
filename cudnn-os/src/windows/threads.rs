//! Starts threads with CreateThread instead of std.
//!
//! Windows runs code of the program in a new thread before the actual work starts (DllMain, TLS callbacks). If that
//! code uses std in a thread that std is still initializing, std terminates the process.

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

pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

const LIMIT: Duration = Duration::from_secs(1);

/// The default of std.
const STACK_SIZE: usize = 2 << 20;

/// IDs and handles of the threads that this module has started. Windows does not reuse an ID while a handle is open.
static THREADS: Mutex<Vec<(u32, Arc<OwnedHandle>)>> = Mutex::new(Vec::new());

pub fn id() -> u32 {
    // SAFETY: the call involves no pointers and always succeeds.
    unsafe { GetCurrentThreadId() }
}

#[inline]
pub fn mark() -> usize {
    id() as usize
}

pub fn is_internal() -> bool {
    let this = id();
    lock_within(&THREADS, LIMIT).is_some_and(|threads| threads.iter().any(|(number, _)| *number == this))
}

pub fn start(name: &str, work: Work<'static>) -> io::Result<()> {
    Thread::start(name, work).map(drop)
}

pub struct Scope<'scope, 'env: 'scope> {
    threads: Arc<Mutex<Vec<Thread>>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

pub fn scope<'env, T>(code: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let scope = Scope { threads: threads.clone(), scope: PhantomData, env: PhantomData };
    // Wait even if the code panics.
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

pub struct ScopedThread<'scope, T> {
    thread: Thread,
    scope: PhantomData<(&'scope (), T)>,
}

impl ScopedThread<'_, ()> {
    pub fn join(self) -> io::Result<()> {
        self.thread.wait();
        Ok(())
    }
}

pub fn start_scoped<'scope>(
    name: &str,
    scope: &'scope Scope<'scope, '_>,
    work: Work<'scope>,
) -> io::Result<ScopedThread<'scope, ()>> {
    // SAFETY: the scope outlives the work, because it waits until the work has run and has been dropped. Everything the
    // work borrows outlives the scope.
    let work = unsafe { std::mem::transmute::<Work<'scope>, Work<'static>>(work) };
    let thread = Thread::start(name, work)?;
    scope.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread.clone());
    Ok(ScopedThread { thread, scope: PhantomData })
}

#[derive(Clone)]
struct Thread {
    handle: Arc<OwnedHandle>,
    /// Set when the work has ended. The thread itself ends later, after the loader has notified all DLLs.
    is_done: Arc<AtomicBool>,
}

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
        // SAFETY: the function takes ownership of this argument once.
        let handle = unsafe { CreateThread(null(), STACK_SIZE, Some(run), start.cast(), flags, &raw mut number) };
        if handle.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: the thread was not created, so this code still owns the argument.
            drop(unsafe { Box::from_raw(start) });
            return Err(error);
        }
        // SAFETY: the handle was just created, and this value becomes the only owner.
        let handle = Arc::new(unsafe { OwnedHandle::from_raw_handle(handle) });
        if let Some(mut threads) = lock_within(&THREADS, LIMIT) {
            threads.retain(|(_, other)| !has_ended(other, 0));
            threads.push((number, handle.clone()));
        }
        if let Some(name) = wide(name.as_ref()) {
            // SAFETY: the handle is open, and the name is NUL-terminated.
            unsafe { SetThreadDescription(raw(&handle), name.as_ptr()) };
        }
        // SAFETY: the handle is open.
        unsafe { ResumeThread(raw(&handle)) };
        Ok(Thread { handle, is_done })
    }

    /// Waits for the work to end, or for the thread if the program terminated it.
    fn wait(&self) {
        const PAUSE: u32 = 10;
        while !self.is_done.load(Ordering::Acquire) && !has_ended(&self.handle, PAUSE) {}
    }
}

fn raw(handle: &OwnedHandle) -> HANDLE {
    handle.as_raw_handle().cast()
}

/// Returns whether a thread exits within this number of milliseconds.
fn has_ended(thread: &OwnedHandle, milliseconds: u32) -> bool {
    // SAFETY: the handle is open.
    unsafe { WaitForSingleObject(raw(thread), milliseconds) == WAIT_OBJECT_0 }
}

unsafe extern "system" fn run(start: *mut c_void) -> u32 {
    // SAFETY: `Thread::start` created the argument for this thread only.
    let Start { work, is_done } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    let _ = catch_unwind(AssertUnwindSafe(work));
    is_done.store(true, Ordering::Release);
    0
}

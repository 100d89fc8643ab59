//! Changes process state outside cuDNN calls: sets environment variables, forks, handles crashes.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_loader::cudnnStatus_t;

use crate::error_string;

/// Repeats `work` in several threads until `main_work` has finished in this thread.
fn run_alongside(work: impl Fn() + Sync, main_work: impl FnOnce()) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        main_work();
        end.store(true, Ordering::Relaxed);
    });
}

/// Adds variables without std's lock, like a C program, while other threads call for error strings.
pub(super) fn setenv() {
    let work = || assert!(!error_string(cudnnStatus_t::CUDNN_STATUS_BAD_PARAM).is_empty());
    // Such a program has already made successful calls.
    error_string(cudnnStatus_t::CUDNN_STATUS_SUCCESS);
    run_alongside(work, || {
        for number in 0..5_000 {
            let name = CString::new(format!("VARIABLE_{number}")).expect("no zero byte");
            // SAFETY: both are strings. Other threads must not read the environment now, which the test checks.
            unsafe { libc::setenv(name.as_ptr(), c"value".as_ptr(), 1) };
        }
    });
    println!("setenv = done");
}

/// Sets a variable like a C program.
pub(super) fn set_variable(variable: &str) {
    let (name, value) = variable.split_once('=').expect("a name and a value");
    let [name, value] = [name, value].map(|text| CString::new(text).expect("no zero byte"));
    // SAFETY: both are strings, and this program is single-threaded.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// Forks while other threads call for verbose error strings, and calls for one in every child.
pub(super) fn fork_during_error_strings() {
    let status = cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
    let fail = || crate::call(cudnn_loader::Function::CudnnCreate, None);
    fail();
    let mut hung = 0;
    let work = || {
        thread_local! { static FAILED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) } }
        if !FAILED.replace(true) {
            fail();
        }
        assert!(error_string(status).contains("cannot be called"));
    };
    run_alongside(work, || {
        // A child that runs into the lock takes a second.
        let start = Instant::now();
        for _ in 0..500 {
            if start.elapsed() > Duration::from_secs(6) {
                break;
            }
            // SAFETY: the child calls for a string, which the test checks, and exits.
            match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: timers are not inherited.
                    unsafe { libc::alarm(5) };
                    let is_text = !error_string(status).is_empty();
                    // SAFETY: _exit only terminates the process.
                    unsafe { libc::_exit(i32::from(!is_text)) }
                }
                child => {
                    let mut ended = 0;
                    // SAFETY: the pointer is to a local variable.
                    unsafe { libc::waitpid(child, &raw mut ended, 0) };
                    hung += u32::from(ended != 0);
                }
            }
        }
    });
    println!("children that hung = {hung}");
}

/// Makes a call that fails because of a missing library, and repeats it in a child.
pub(super) fn fork_after_failure() {
    let fail = || crate::call(cudnn_loader::Function::CudnnCreateTensorDescriptor, None);
    fail();
    // SAFETY: the child calls one function, which the test checks, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: timers are not inherited.
        unsafe { libc::alarm(5) };
        fail();
        crate::error_string(cudnn_loader::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE);
        // SAFETY: _exit only terminates the process.
        unsafe { libc::_exit(0) }
    }
    let mut ended = 0;
    // SAFETY: the pointer is to a local variable.
    unsafe { libc::waitpid(child, &raw mut ended, 0) };
    println!("the child exited with = {ended}");
}

/// Installs a crash handler that exits with 42, like programs with crash reporting.
pub(super) fn handle_crashes() {
    extern "C" fn handler(_: libc::c_int) {
        const TEXT: &CStr = c"the crash handler ran\n";
        // SAFETY: both functions may be called in a signal handler.
        unsafe {
            libc::write(1, TEXT.as_ptr().cast(), TEXT.count_bytes());
            libc::_exit(42)
        }
    }
    let handler = handler as extern "C" fn(libc::c_int);
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        // SAFETY: the handler calls only functions that are allowed in one.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

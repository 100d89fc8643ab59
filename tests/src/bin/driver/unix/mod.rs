//! Implements the driver's commands on Linux.

mod process_state;
mod threads;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::Mutex;

static LOCKED_FILES: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

static TAKEN: Mutex<Vec<std::fs::File>> = Mutex::new(Vec::new());

static WRITE_LOCK: libc::flock =
    libc::flock { l_type: libc::F_WRLCK as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };

/// Returns whether another process sees the file as locked.
fn is_locked(file: RawFd) -> bool {
    // SAFETY: the child inherits the descriptor but not the lock, and it only tests the lock and exits.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut lock = WRITE_LOCK;
            libc::fcntl(file, libc::F_GETLK, &raw mut lock);
            libc::_exit(i32::from(lock.l_type != libc::F_UNLCK as libc::c_short));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        libc::WEXITSTATUS(status) == 1
    }
}

/// Performs a command for Linux. Returns `false` if the name is unknown.
pub(crate) fn perform(name: &str, option: &str) -> bool {
    match (name, option) {
        ("constructor", file) => threads::constructor(file),
        ("fork", _) => threads::fork(),
        ("cancel", _) => threads::cancel(),
        ("setenv", "") => process_state::setenv(),
        ("setenv", variable) => process_state::set_variable(variable),
        ("fork-during-error-strings", _) => process_state::fork_during_error_strings(),
        ("fork-after-failure", _) => process_state::fork_after_failure(),
        ("handle-crashes", _) => process_state::handle_crashes(),
        ("release", id) => println!("release = {}", if support::release(id).is_some() { "found" } else { "none" }),
        ("lock", file) => {
            let file = std::fs::File::create(file).expect("the file can be created");
            let file = file.into_raw_fd();
            // SAFETY: the calls clear a flag of the descriptor and lock the file for this process.
            unsafe {
                libc::fcntl(file, libc::F_SETFD, 0);
                libc::fcntl(file, libc::F_SETLK, &raw const WRITE_LOCK);
            }
            LOCKED_FILES.lock().unwrap().push(file);
        }
        ("locked", _) => {
            for file in LOCKED_FILES.lock().unwrap().iter() {
                // SAFETY: the call only reads the flags of the descriptor.
                let flags = unsafe { libc::fcntl(*file, libc::F_GETFL) };
                println!("appends = {}", flags & libc::O_APPEND != 0);
                println!("locked = {}", is_locked(*file));
            }
        }
        // Rust ignores this signal, but C programs die from it. SAFETY: every process starts with the default action.
        ("sigpipe", _) => drop(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) }),
        ("close-all", _) => {
            // SAFETY: this breaks code that uses the descriptors, as daemons do at startup. The test needs exactly
            // that.
            unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        }
        ("take-descriptors", _) => {
            let few = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
            // SAFETY: the call reads the structure.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few) };
            TAKEN.lock().unwrap().extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
        }
        ("free-descriptors", _) => TAKEN.lock().unwrap().clear(),
        _ => return false,
    }
    true
}

/// Makes a signal kill the process if it deadlocks.
pub(crate) fn set_time_limit(seconds: u32) {
    // SAFETY: alarm only sets a timer.
    unsafe { libc::alarm(seconds) };
}

pub(crate) fn mapped_files() -> BTreeSet<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let files = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    files.filter(|file| file.contains("libcudnn")).map(str::to_owned).collect()
}

/// Returns whether ld.so lists a library, which happens before its constructors have run.
pub(crate) fn is_listed(name: &str) -> bool {
    unsafe extern "C" fn has_name(info: *mut libc::dl_phdr_info, _: usize, name: *mut libc::c_void) -> libc::c_int {
        // SAFETY: ld.so passes a structure with a path, and `is_listed` passes the name.
        let (path, name) = unsafe { (CStr::from_ptr((*info).dlpi_name), *name.cast::<&str>()) };
        path.to_bytes().ends_with(name.as_bytes()).into()
    }
    // SAFETY: the function matches the expected type, and the name outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(has_name), (&raw const name).cast_mut().cast()) != 0 }
}

//! Records settings that this process inherited, because a program that replaces it must inherit them.
//!
//! Before `main`, std ignores SIGPIPE and opens /dev/null in place of closed standard streams. This crate changes
//! SIGCHLD, and code for interruptions changes more signals. std never permanently changes the signal mask, limits, the
//! umask or the working directory, and files that std opens are closed by `exec`.

use std::ffi::c_int;
use std::io::Result;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const LAST_SIGNAL: c_int = 64;

/// The ignored signals. The lowest bit stands for signal 1.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// The closed standard streams. The lowest bit stands for standard input.
static CLOSED: AtomicU8 = AtomicU8::new(0);

crate::at_load!(RECORD: record);

/// Runs before std starts, and therefore only makes system calls.
extern "C" fn record() {
    let ignored = (1..=LAST_SIGNAL).filter(|signal| is_ignored(*signal));
    IGNORED.store(ignored.fold(0, |set, signal| set | 1 << (signal - 1)), Ordering::Relaxed);
    let closed = (libc::STDIN_FILENO..=libc::STDERR_FILENO).filter(|stream| is_closed(*stream));
    CLOSED.store(closed.fold(0, |set, stream| set | 1 << stream), Ordering::Relaxed);
}

/// Restores the recorded settings, also between `fork` and `exec`. Always returns `Ok`, for `pre_exec`.
pub(super) fn restore() -> Result<()> {
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in 1..=LAST_SIGNAL {
        let was_ignored = ignored >> (signal - 1) & 1 != 0;
        if was_ignored != is_ignored(signal) {
            let action = if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: neither action runs code of this process.
            unsafe { libc::signal(signal, action) };
        }
    }
    for stream in libc::STDIN_FILENO..=libc::STDERR_FILENO {
        if was_closed(stream) {
            // SAFETY: std opened /dev/null here, and the standard streams have no owner.
            unsafe { libc::close(stream) };
        }
    }
    Ok(())
}

/// Returns whether this standard stream was closed.
pub(super) fn was_closed(stream: c_int) -> bool {
    CLOSED.load(Ordering::Relaxed) >> stream & 1 != 0
}

/// Returns whether a signal is ignored. Numbers that the C library reserves count as not ignored.
fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call only writes to the structure.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

fn is_closed(stream: c_int) -> bool {
    // SAFETY: the call involves no pointers, and only fails for a closed descriptor.
    unsafe { libc::fcntl(stream, libc::F_GETFD) == -1 }
}

//! Linux: ld.so of glibc or musl, POSIX threads, `fork`.

pub(crate) use super::std_threads as threads;

pub(crate) mod cancel;
pub(crate) mod clock;
pub(crate) mod descriptors;
mod dlerror;
pub(crate) mod environment;
pub(crate) mod exit;
pub(crate) mod fork;
pub(crate) mod libraries;
pub(crate) mod load;
pub(crate) mod log_file;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod pages;
pub(crate) mod readahead;
pub(crate) mod search;
pub(super) mod signals;

/// The number of this thread, unique in the system.
pub(crate) fn thread_id() -> i64 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

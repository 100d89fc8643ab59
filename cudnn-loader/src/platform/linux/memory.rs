//! Whether the process may take the memory that cuDNN's engines need. Where it may not, cuDNN throws a C++ exception
//! through its functions, which ends the process.

/// The engines and cuBLASLt map two gigabytes. A process that uses a GPU has mapped several more by then.
const ENOUGH: libc::rlim_t = 16 << 30;

/// Whether the address space of this process has a limit (`ulimit -v`) that may be too low for the engines.
pub(crate) fn is_limited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the answer has room.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) == 0 && limit.rlim_cur < ENOUGH }
}

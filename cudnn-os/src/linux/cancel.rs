//! Hides system calls from the program by preserving `errno` and postponing thread cancellation.

use std::ffi::c_int;

/// glibc and musl use the same value.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    // The `libc` crate does not declare this function for Linux. It is safe, because it accepts any state and writes
    // only through the pointer from `ThreadStateGuard`.
    safe fn pthread_setcancelstate(state: c_int, previous: *mut c_int) -> c_int;
}

/// Preserves `errno` and postpones cancellation of this thread (`pthread_cancel`). Otherwise, cancellation unwinds the
/// stack at any call that may block, and unwinding Rust code in this way aborts the process.
#[derive(Debug)]
pub struct ThreadStateGuard {
    errno: c_int,
    cancel_state: c_int,
}

impl ThreadStateGuard {
    /// Saves `errno` and disables cancellation.
    #[allow(clippy::new_without_default, reason = "a guard must be created explicitly")]
    pub fn new() -> Self {
        // SAFETY: the address of `errno` is valid for the lifetime of the thread.
        let errno = unsafe { *libc::__errno_location() };
        let mut cancel_state = 0;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancel_state);
        ThreadStateGuard { errno, cancel_state }
    }
}

impl Drop for ThreadStateGuard {
    fn drop(&mut self) {
        let mut disabled = 0;
        pthread_setcancelstate(self.cancel_state, &raw mut disabled);
        // SAFETY: the address of `errno` is valid for the lifetime of the thread.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no pthread_setcancelstate")]
    fn errno_is_as_before() {
        // SAFETY: the address of `errno` is valid for the lifetime of the thread.
        let errno = || unsafe { &mut *libc::__errno_location() };
        *errno() = libc::EINTR;
        let guard = ThreadStateGuard::new();
        *errno() = libc::ENOENT;
        drop(guard);
        assert_eq!(*errno(), libc::EINTR);
    }
}

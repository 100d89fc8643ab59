//! What the program must not notice of a system call that is made beside its own.

use std::ffi::c_int;

unsafe extern "C" {
    // The crate `libc` does not declare it for Linux.
    fn pthread_setcancelstate(state: c_int, previous: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`, in glibc and musl.
const CANCEL_DISABLE: c_int = 1;

/// Keeps `errno`, and keeps the thread from being cancelled: that would unwind through functions that do not unwind.
pub(super) struct Unnoticed {
    errno: c_int,
    cancel_state: c_int,
}

impl Unnoticed {
    pub(super) fn new() -> Self {
        let mut cancel_state = 0;
        // SAFETY: both calls concern this thread alone, and the answer has room.
        unsafe {
            let errno = *libc::__errno_location();
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut cancel_state);
            Unnoticed { errno, cancel_state }
        }
    }
}

impl Drop for Unnoticed {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as above.
        unsafe {
            pthread_setcancelstate(self.cancel_state, &raw mut ignored);
            *libc::__errno_location() = self.errno;
        }
    }
}

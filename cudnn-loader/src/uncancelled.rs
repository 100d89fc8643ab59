//! A thread that is not cancelled for a while.

use std::ffi::c_int;

/// Puts off the cancellation of this thread (`pthread_cancel`) for as long as it lives. A cancellation unwinds the
/// stack, at any call that may block, and Rust code ends the process when it is unwound so.
#[doc(hidden)]
#[derive(Debug)]
pub struct CancelDisabled {
    before: c_int,
}

unsafe extern "C" {
    // Declared safe: it takes any state, and writes where it is told, which `Uncancelled` alone says.
    safe fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl CancelDisabled {
    #[doc(hidden)]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "of no use outside of the project")]
    pub fn new() -> Self {
        // The same in glibc and musl.
        const DISABLE: c_int = 1;
        let mut before = 0;
        pthread_setcancelstate(DISABLE, &raw mut before);
        CancelDisabled { before }
    }
}

impl Drop for CancelDisabled {
    fn drop(&mut self) {
        let mut disabled = 0;
        pthread_setcancelstate(self.before, &raw mut disabled);
    }
}

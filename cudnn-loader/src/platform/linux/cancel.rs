//! Postpones the cancellation of a thread.

use std::ffi::c_int;

/// Postpones the cancellation of this thread (`pthread_cancel`) as long as the guard lives. A cancellation unwinds the
/// stack at any call that may block, and unwinding Rust code that way aborts the process.
#[derive(Debug)]
pub struct CancelDisabled {
    previous: c_int,
}

unsafe extern "C" {
    // Safe to call: it accepts any state, and writes only through the pointer that `CancelDisabled` passes.
    safe fn pthread_setcancelstate(state: c_int, previous: *mut c_int) -> c_int;
}

impl CancelDisabled {
    /// Disables cancellation.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "only this project uses it")]
    pub fn new() -> Self {
        // The same value in glibc and musl.
        const DISABLE: c_int = 1;
        let mut previous = 0;
        pthread_setcancelstate(DISABLE, &raw mut previous);
        CancelDisabled { previous }
    }
}

impl Drop for CancelDisabled {
    fn drop(&mut self) {
        let mut disabled = 0;
        pthread_setcancelstate(self.previous, &raw mut disabled);
    }
}

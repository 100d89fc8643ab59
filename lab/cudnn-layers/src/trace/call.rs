//! Describes a finished call for all outputs.

use cudnn_sys::types::cudnnStatus_t;

use crate::wrappers::Call;

/// A call that has returned or was left by an exception.
pub(super) struct FinishedCall<'a, 'b> {
    pub(super) call: &'a Call<'b>,
    /// Start time on the monotonic clock, in nanoseconds.
    pub(super) start: u64,
    /// Duration in nanoseconds.
    pub(super) duration: u64,
    /// The returned status, if the function returns one.
    pub(super) status: Option<cudnnStatus_t>,
    /// The call was left by an exception of the program.
    pub(super) is_unwinding: bool,
    /// The stream of the handle.
    pub(super) stream: Option<usize>,
    /// Describes the graph that was passed to the call.
    pub(super) label: Option<&'a str>,
    /// The thread ID.
    pub(super) thread: u32,
}

impl FinishedCall<'_, '_> {
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| status.0 != 0)
    }
}

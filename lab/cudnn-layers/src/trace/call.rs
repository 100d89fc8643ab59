//! Describes a finished call for all outputs.

use cudnn_sys::types::cudnnStatus_t;

use crate::wrappers::Call;

/// A call that has returned, or that an exception has left.
pub(super) struct FinishedCall<'a, 'b> {
    pub(super) call: &'a Call<'b>,
    /// The start time on the monotonic clock, in nanoseconds.
    pub(super) start: u64,
    /// The duration in nanoseconds.
    pub(super) duration: u64,
    pub(super) status: Option<cudnnStatus_t>,
    /// Whether an exception of the program has left the call.
    pub(super) is_unwinding: bool,
    pub(super) stream: Option<usize>,
    /// The description of the graph in the call.
    pub(super) label: Option<&'a str>,
    pub(super) thread: u32,
}

impl FinishedCall<'_, '_> {
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| status.0 != 0)
    }
}

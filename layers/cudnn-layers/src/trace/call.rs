//! A call that has ended, as all outputs get it.

use cudnn_sys::types::cudnnStatus_t;

use crate::wrappers::Call;

/// The call.
pub(super) struct FinishedCall<'a, 'b> {
    pub(super) call: &'a Call<'b>,
    /// When it began, in nanoseconds of the monotonic clock.
    pub(super) start: u64,
    /// How long it took.
    pub(super) duration: u64,
    /// What it returned, if that is a status.
    pub(super) status: Option<cudnnStatus_t>,
    /// It did not return: an exception of the program passes through it.
    pub(super) is_unwinding: bool,
    /// The stream of its handle.
    pub(super) stream: Option<usize>,
    /// What the graph does that it was given.
    pub(super) label: Option<&'a str>,
    /// The thread.
    pub(super) thread: u32,
}

impl FinishedCall<'_, '_> {
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| status.0 != 0)
    }
}

//! The state of a layer that has started.

use once_cell::race::OnceBox;

use crate::fork::{self, AtFork, Rank};
use crate::last_error::SAVED_TEXTS;
use crate::shadow;

static LAST_ERRORS: &[AtFork] = &[AtFork::Inherited(&SAVED_TEXTS)];

/// The state of a layer, which is set when the layer starts. Reading never waits for the thread that sets it.
pub(crate) struct Active<T>(OnceBox<T>);

impl<T> Active<T> {
    pub(crate) const fn new() -> Self {
        Active(OnceBox::new())
    }

    /// Sets the state, and registers the layer's parts for forks. Returns an error if the layer is already active.
    pub(crate) fn begin(
        &self,
        name: &str,
        state: T,
        rank: Rank,
        parts: &'static &'static [AtFork],
    ) -> Result<(), String> {
        fork::take_part(Rank::Shadow, &shadow::AT_FORK);
        fork::take_part(Rank::LastErrors, &LAST_ERRORS);
        fork::take_part(rank, parts);
        self.0.set(Box::new(state)).map_err(|_| format!("{name} is already active"))
    }

    /// Returns the state. After a fork by a system call, this first prepares the layers for the child.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get().inspect(|_| fork::notice_child())
    }
}

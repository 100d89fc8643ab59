//! A table of file descriptors for one thread: a program cannot close handles that it does not know.

/// Does nothing: there is no table of a thread, and no need of one.
#[must_use]
pub fn leave_shared_table() -> bool {
    true
}

/// As [`leave_shared_table`].
pub fn leave_all() -> bool {
    true
}

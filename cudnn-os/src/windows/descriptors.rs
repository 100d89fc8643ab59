//! Windows does not need private descriptor tables, because a program cannot close handles that it does not know.

#[must_use]
pub fn leave_shared_table() -> bool {
    true
}

pub fn leave_all() -> bool {
    true
}

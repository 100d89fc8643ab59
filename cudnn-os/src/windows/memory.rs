//! The memory that the process may use.

/// Returns `None`: limits of a job concern committed memory.
pub fn address_space_limit() -> Option<u64> {
    None
}

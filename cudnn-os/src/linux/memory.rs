//! Reads memory limits of the process.

/// The type that identifies a resource limit.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Returns the limit of the address space (`ulimit -v`) in bytes, or `None` if it is unlimited.
pub fn address_space_limit() -> Option<u64> {
    limit_of(libc::RLIMIT_AS)
}

/// Returns the soft limit of a resource, or `None` if it is unlimited.
pub(crate) fn limit_of(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the output pointer is valid.
    let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

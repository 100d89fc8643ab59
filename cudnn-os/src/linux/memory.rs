//! Reads memory limits of the process, and memory at addresses that may be invalid.

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Returns the limit of the address space (`ulimit -v`) in bytes, or `None` if it is unlimited.
pub fn address_space_limit() -> Option<u64> {
    limit_of(libc::RLIMIT_AS)
}

/// The maximum size of a copy in bytes.
pub const MAX_COPY: usize = 4096;

/// Returns a copy of memory at an untrusted address. Returns `None` if a part is unreadable, if the size exceeds
/// [`MAX_COPY`], or if the system forbids the check.
///
/// The kernel copies the bytes, so that an invalid address does not cause a crash.
pub fn copy(address: usize, len: usize) -> Option<Vec<u8>> {
    let mut copy: Vec<u8> = Vec::new();
    copy.try_reserve_exact(Some(len).filter(|len| *len <= MAX_COPY)?).ok()?;
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: len };
    let from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: len };
    // SAFETY: `to` is valid for writes, and the kernel checks `from`.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    if usize::try_from(copied) != Ok(len) {
        return None;
    }
    // SAFETY: the kernel has written these bytes.
    unsafe { copy.set_len(len) };
    Some(copy)
}

/// Returns the soft limit of a resource, or `None` if it is unlimited.
pub(crate) fn limit_of(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the output pointer is valid.
    let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the last copy failed because an emulator or a sandbox forbids all copies.
    fn are_copies_forbidden() -> bool {
        let error = std::io::Error::last_os_error().raw_os_error();
        matches!(error, Some(libc::EPERM | libc::ENOSYS))
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot copy memory between processes")]
    fn unreadable_memory_is_an_error() {
        let bytes = [1, 2, 3, 4];
        let address = bytes.as_ptr().expose_provenance();
        assert!(copy(address, 4).map_or_else(are_copies_forbidden, |copy| copy == bytes));
        for (address, len) in [(8, 4), (usize::MAX - 2, 4), (address, usize::MAX), (address, 1 << 40)] {
            assert_eq!(copy(address, len), None, "{len}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "process_vm_readv is unsupported in Miri")]
    fn copies_have_a_limit() {
        let bytes = vec![7; 2 * MAX_COPY];
        let address = bytes.as_ptr().expose_provenance();
        assert!(copy(address, MAX_COPY).map_or_else(are_copies_forbidden, |copy| copy == bytes[..MAX_COPY]));
        assert_eq!(copy(address, MAX_COPY + 1), None);
    }
}

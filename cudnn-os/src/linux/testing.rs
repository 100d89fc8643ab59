//! Provides helpers for the tests of other crates.

use std::ffi::c_void;
use std::ptr::null_mut;

/// Runs `check` in a forked child and returns the result, or `None` on systems without `fork`.
///
/// # Safety
/// `check` must not acquire a lock that another thread of this process may hold.
pub unsafe fn check_in_child(check: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the caller guarantees that `check` is safe in a child, and the child exits without running destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(!check());
        // SAFETY: this call terminates the child.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: the child was just created, and the output pointer is valid.
    let has_ended = child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
    Some(has_ended && status == 0)
}

/// Maps `2 * length` bytes, makes the second half inaccessible, and returns the address between the halves. `length`
/// must be a multiple of the page size. The memory is never freed. Returns `None` on unsupported systems.
pub fn end_of_readable_memory(length: usize) -> Option<*mut c_void> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: this creates a new anonymous mapping.
    let start = unsafe { libc::mmap(null_mut(), 2 * length, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let end = start.wrapping_byte_add(length);
    // SAFETY: this is the second half of the mapping above.
    (unsafe { libc::mprotect(end, length, libc::PROT_NONE) } == 0).then_some(end)
}

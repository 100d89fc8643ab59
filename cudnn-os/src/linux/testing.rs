//! Helpers for the tests of other crates.

use std::ffi::c_void;
use std::ptr::null_mut;

/// Runs `check` in a child of `fork`, and returns whether it returned `true`. `None` on systems without `fork`.
///
/// # Safety
/// `check` takes no lock that another thread of this process may have.
pub unsafe fn check_in_child(check: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the child runs what the caller vouches for, and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(!check());
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just created.
    let has_ended = child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
    Some(has_ended && status == 0)
}

/// Maps memory twice as long, a multiple of the page size, makes its second half unreadable, and returns the address
/// between the halves. The memory is never freed. `None` on systems that cannot do this.
pub fn end_of_readable_memory(length: usize) -> Option<*mut c_void> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of its own.
    let start = unsafe { libc::mmap(null_mut(), 2 * length, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let end = start.wrapping_byte_add(length);
    // SAFETY: the second half of the mapping above.
    (unsafe { libc::mprotect(end, length, libc::PROT_NONE) } == 0).then_some(end)
}

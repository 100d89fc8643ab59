//! Functions that run before and after a `fork`, and a word that tells a child process from its parent.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Calls these at each fork from now on: before it, after it in the parent, after it in the child. Before a fork, glibc
/// calls the function that was registered last first.
pub fn call_at_forks(before: unsafe extern "C" fn(), after: unsafe extern "C" fn(), in_child: unsafe extern "C" fn()) {
    // SAFETY: the functions are of the right type, and stay as long as this library, with which glibc drops them.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// The word if there is no such page.
static FALLBACK: AtomicU32 = AtomicU32::new(0);

/// Returns a number that is 0 in a new child process, also in that of a `fork` or `clone` system call that the C library
/// did not make. Call [`prepare_word`] first.
#[inline]
pub fn word() -> &'static AtomicU32 {
    // SAFETY: it is null, or a word that is never freed.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }.unwrap_or(&FALLBACK)
}

/// Creates the word. A handler of the C library's `fork` clears it, and so does the kernel, which clears its page in each
/// child (since Linux 4.14; an emulator may not).
pub fn prepare_word() {
    const SIZE: usize = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of its own.
    let page = unsafe { libc::mmap(null_mut(), SIZE, access, flags, -1, 0) };
    // SAFETY: the page is the one above, if there is one.
    if page != libc::MAP_FAILED && unsafe { libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) } == 0 {
        WORD.store(page.cast(), Ordering::Release);
    }
    unsafe extern "C" fn nothing() {}
    unsafe extern "C" fn clear() {
        word().store(0, Ordering::Relaxed);
    }
    call_at_forks(nothing, nothing, clear);
}

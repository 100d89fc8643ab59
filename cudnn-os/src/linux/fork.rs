//! Detects and handles `fork`.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Registers functions to call at every later fork: before it, and afterwards in the parent and in the child. glibc
/// calls the functions before a fork in reverse order of registration.
pub fn call_at_forks(before: unsafe extern "C" fn(), after: unsafe extern "C" fn(), in_child: unsafe extern "C" fn()) {
    // SAFETY: the functions have the right types and live as long as this library. glibc unregisters them when the
    // library is unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// Used if the special page is unavailable.
static FALLBACK: AtomicU32 = AtomicU32::new(0);

/// Returns a number that is 0 in every new child process, including children of raw `fork` or `clone` system calls.
/// Call [`prepare_word`] first.
#[inline]
pub fn word() -> &'static AtomicU32 {
    // SAFETY: the pointer is either null or points to a word that is never freed.
    unsafe { WORD.load(Ordering::Acquire).as_ref() }.unwrap_or(&FALLBACK)
}

/// Creates the word. A fork handler of the C library resets it, and the kernel also clears the page in every child
/// (since Linux 4.14, but not in all emulators).
pub fn prepare_word() {
    const SIZE: usize = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: this creates a new anonymous mapping.
    let page = unsafe { libc::mmap(null_mut(), SIZE, access, flags, -1, 0) };
    // SAFETY: the page was mapped above if the address is valid.
    if page != libc::MAP_FAILED && unsafe { libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) } == 0 {
        WORD.store(page.cast(), Ordering::Release);
    }
    unsafe extern "C" fn nothing() {}
    unsafe extern "C" fn clear() {
        word().store(0, Ordering::Relaxed);
    }
    call_at_forks(nothing, nothing, clear);
}

//! Functions that run before and after a `fork`.

/// Calls these at each fork from now on: before it, after it in the parent, after it in the child. glibc calls what is
/// registered last first before a fork.
pub(crate) fn call_at_forks(
    before: unsafe extern "C" fn(),
    after: unsafe extern "C" fn(),
    in_child: unsafe extern "C" fn(),
) {
    // SAFETY: the functions are of the right type, and stay as long as this library, with which glibc drops them.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

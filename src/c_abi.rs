//! Stops panics at the C boundary of the functions in `cudnn_shim.h`.

/// Runs `f` and returns `None` if it panics. Panics would be bugs, but they must never unwind into C.
pub(crate) fn catch_panic<T>(f: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    cudnn_os::load::keep_loaded();
    // Canceling a thread also unwinds the stack, and unwinding through this Rust code would abort the process.
    let _guard = cudnn_os::cancel::ThreadStateGuard::new();
    std::panic::catch_unwind(f).ok()
}

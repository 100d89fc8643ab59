//! The boundary to C of every function of `cudnn_shim.h`: stops panics.

/// Runs `f`; returns `None` if it panics. Nothing here should panic, but a bug must not unwind into C.
pub(crate) fn catch_panic<T>(f: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    cudnn_os::load::keep_loaded();
    // A cancelled thread unwinds too, and that would abort the process in Rust code.
    let _guard = cudnn_os::cancel::ThreadStateGuard::new();
    std::panic::catch_unwind(f).ok()
}

//! The differences between operating systems: the names of libraries, and whether one is loaded.

use libloading::Library;

#[cfg(unix)]
mod names {
    #[cfg(feature = "gpu")]
    pub(crate) const DRIVER: &str = "libcuda.so.1";
    pub(crate) const ENGINES_PRECOMPILED: &str = "libcudnn_engines_precompiled.so.9";
    pub(crate) const CUBLAS_LT_12: &str = "libcublasLt.so.12";
    pub(crate) const CUBLAS_LT_13: &str = "libcublasLt.so.13";
}
#[cfg(windows)]
mod names {
    #[cfg(feature = "gpu")]
    pub(crate) const DRIVER: &str = "nvcuda.dll";
    pub(crate) const ENGINES_PRECOMPILED: &str = "cudnn_engines_precompiled64_9.dll";
    pub(crate) const CUBLAS_LT_12: &str = "cublasLt64_12.dll";
    pub(crate) const CUBLAS_LT_13: &str = "cublasLt64_13.dll";
}
#[cfg(feature = "gpu")]
pub(crate) use names::DRIVER;
pub(crate) use names::{CUBLAS_LT_12, CUBLAS_LT_13, ENGINES_PRECOMPILED};

/// Whether a library of NVIDIA's can be loaded by this name.
pub(crate) fn can_load(name: &str) -> bool {
    // SAFETY: cuDNN loads the same library by the same name.
    unsafe { Library::new(name) }.is_ok()
}

/// Whether the process has loaded a library of this name.
#[cfg(unix)]
pub(crate) fn is_loaded(name: &str) -> bool {
    use libloading::os::unix::{Library, RTLD_LAZY};
    // SAFETY: with RTLD_NOLOAD nothing is loaded, so no initializer runs.
    unsafe { Library::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) }.is_ok()
}

/// Whether the process has loaded a library of this name.
#[cfg(windows)]
pub(crate) fn is_loaded(name: &str) -> bool {
    libloading::os::windows::Library::open_already_loaded(name).is_ok()
}

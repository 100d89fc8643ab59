//! Handles the differences between operating systems: the names of libraries, and whether they are loaded.

use std::mem::ManuallyDrop;
use std::path::Path;

use cudnn_os::windows_or;
use libloading::Library;

#[cfg(feature = "gpu")]
pub(crate) const DRIVER: &str = windows_or!("nvcuda.dll", "libcuda.so.1");
pub(crate) const ENGINES_PRECOMPILED: &str =
    windows_or!("cudnn_engines_precompiled64_9.dll", "libcudnn_engines_precompiled.so.9");
pub(crate) const CUBLAS_LT_12: &str = windows_or!("cublasLt64_12.dll", "libcublasLt.so.12");
pub(crate) const CUBLAS_LT_13: &str = windows_or!("cublasLt64_13.dll", "libcublasLt.so.13");

/// Loads an NVIDIA library, which is never unloaded. Returns whether this succeeded.
pub(crate) fn can_load(name: &str) -> bool {
    // SAFETY: cuDNN loads the same library by the same name.
    unsafe { Library::new(name) }.map(ManuallyDrop::new).is_ok()
}

pub(crate) fn is_loaded(name: &str) -> bool {
    cudnn_os::libraries::is_loaded(Path::new(name))
}

//! Defines system-specific names for messages and file names. They are macros so that `format!` can embed them.

use cudnn_os::{IS_WINDOWS, windows_or};

/// The name of the system's dynamic loader.
macro_rules! loader {
    () => {
        cudnn_os::windows_or!("Windows", "ld.so")
    };
}

/// The environment variable that lists the loader's search directories.
macro_rules! search_variable {
    () => {
        cudnn_os::windows_or!("PATH", "LD_LIBRARY_PATH")
    };
}

pub(crate) use {loader, search_variable};

/// The prefix of all cuDNN file names.
pub(crate) const CUDNN_PREFIX: &str = windows_or!("cudnn", "libcudnn");

/// The file name of NVIDIA's driver library.
pub(crate) const DRIVER: &str = windows_or!("nvcuda.dll", "libcuda.so.1");

/// The reason why this thread must not wait for other threads.
pub(crate) const LOADER_LOCK: &str = windows_or!(
    "this thread holds the lock of Windows' loader, as in DllMain",
    "this thread holds ld.so's lock, as in a library's constructor"
);

/// Returns the name that cuDNN's engines use to open cuBLASLt.
pub(crate) fn cublas_lt(cuda_major: u32) -> String {
    if IS_WINDOWS { format!("cublasLt64_{cuda_major}.dll") } else { format!("libcublasLt.so.{cuda_major}") }
}

//! Names of this system in messages and file names. Macros, because `format!` then makes them part of its text.

use cudnn_os::{IS_WINDOWS, windows_or};

/// The system's loader of libraries.
macro_rules! loader {
    () => {
        cudnn_os::windows_or!("Windows", "ld.so")
    };
}

/// The variable with the directories that the system's loader searches.
macro_rules! search_variable {
    () => {
        cudnn_os::windows_or!("PATH", "LD_LIBRARY_PATH")
    };
}

/// The start of the name of cuBLASLt's file.
macro_rules! cublas_prefix {
    () => {
        cudnn_os::windows_or!("cublasLt", "libcublasLt")
    };
}

pub(crate) use {cublas_prefix, loader, search_variable};

/// How the names of all files of cuDNN start.
pub(crate) const CUDNN_PREFIX: &str = windows_or!("cudnn", "libcudnn");

/// The driver's library.
pub(crate) const DRIVER: &str = windows_or!("nvcuda.dll", "libcuda.so.1");

/// The reason why no other thread can load anything.
pub(crate) const BUSY_LOADER: &str = windows_or!(
    "the lock of Windows' loader is busy, as in DllMain",
    "ld.so's lock is busy, as in a library's constructor"
);

/// There is a cuDNN for this system.
pub(crate) const HAS_CUDNN: bool = IS_WINDOWS || cudnn_os::IS_LINUX;

/// The name by which cuDNN's engines open cuBLASLt.
pub(crate) fn cublas_lt(cuda_major: u32) -> String {
    if IS_WINDOWS { format!("cublasLt64_{cuda_major}.dll") } else { format!("libcublasLt.so.{cuda_major}") }
}

//! Names as messages and file names have them. Macros, because `format!` then makes them part of its text.

/// The system's loader of libraries.
macro_rules! loader {
    () => {
        "Windows"
    };
}

/// The variable with the directories that the system's loader searches.
macro_rules! search_variable {
    () => {
        "PATH"
    };
}

/// How the names of all files of cuDNN start.
macro_rules! cudnn_prefix {
    () => {
        "cudnn"
    };
}

/// The driver's library.
macro_rules! driver_file {
    () => {
        "nvcuda.dll"
    };
}

/// The start of the name of cuBLASLt's file.
macro_rules! cublas_prefix {
    () => {
        "cublasLt"
    };
}

/// The reason why no other thread can load anything.
macro_rules! busy_loader {
    () => {
        "the lock of Windows' loader is busy, as in DllMain"
    };
}

pub(crate) use {busy_loader, cublas_prefix, cudnn_prefix, driver_file, loader, search_variable};

/// Advice where to get a library that cuDNN needs and does not include.
pub(crate) use cudnn_probe::dll_search::help_for_missing_dll as help_for_missing_library;

/// The name by which cuDNN's engines open cuBLASLt.
pub(crate) fn cublas_lt(cuda_major: u32) -> String {
    format!("cublasLt64_{cuda_major}.dll")
}

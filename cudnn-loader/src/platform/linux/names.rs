//! Names as messages and file names have them. Macros, because `format!` then makes them part of its text.

/// The system's loader of libraries.
macro_rules! loader {
    () => {
        "ld.so"
    };
}

/// The variable with the directories that the system's loader searches.
macro_rules! search_variable {
    () => {
        "LD_LIBRARY_PATH"
    };
}

/// How the names of all files of cuDNN start.
macro_rules! cudnn_prefix {
    () => {
        "libcudnn"
    };
}

/// The driver's library.
macro_rules! driver_file {
    () => {
        "libcuda.so.1"
    };
}

/// The start of the name of cuBLASLt's file.
macro_rules! cublas_prefix {
    () => {
        "libcublasLt"
    };
}

/// The reason why no other thread can load anything.
macro_rules! busy_loader {
    () => {
        "ld.so's lock is busy, as in a library's constructor"
    };
}

pub(crate) use {busy_loader, cublas_prefix, cudnn_prefix, driver_file, loader, search_variable};

/// Advice where to get a library that cuDNN needs and does not include.
pub(crate) fn help_for_missing_library(name: &str) -> Option<String> {
    let help = if name.starts_with("libcuda.so") {
        "Install NVIDIA's driver, or start the container with the GPU (`docker run --gpus all`). Under WSL the driver's \
         library is in /usr/lib/wsl/lib."
    } else if name.starts_with("libz.so") {
        "Install zlib (Debian and Ubuntu: `apt-get install zlib1g`)."
    } else {
        return None;
    };
    Some(help.into())
}

/// The name by which cuDNN's engines open cuBLASLt.
pub(crate) fn cublas_lt(cuda_major: u32) -> String {
    format!("libcublasLt.so.{cuda_major}")
}

//! Provides system-specific terms, such as the library loader, for use in messages.

use cudnn_os::errors::is_lack_of_files;
use cudnn_os::libraries;
use cudnn_probe::facts::PathFacts;
use cudnn_probe::{Architecture, Os, ProbeError};
use std::path::{Path, PathBuf};

const IS_WINDOWS: bool = matches!(Os::HOST, Os::Windows);

pub(crate) const fn choose(linux: &'static str, windows: &'static str) -> &'static str {
    if IS_WINDOWS { windows } else { linux }
}

/// The library loader.
pub const LOADER: &str = choose("ld.so", "Windows");

/// The same in the genitive.
pub const LOADERS: &str = choose("ld.so's", "Windows'");

/// The function that opens a library by name.
pub const OPEN: &str = choose("dlopen", "LoadLibrary");

/// The driver's library.
pub const DRIVER_LIBRARY: &str = choose("libcuda.so.1", "nvcuda.dll");
/// The name of NVML.
pub const NVML: &str = choose("libnvidia-ml.so.1", "nvml.dll");

pub(crate) const PYTHON: &str = choose("python3", "python.exe");

pub(crate) const CUDNN_PREFIX: &str = choose("libcudnn", "cudnn");

/// The prefixes of NVIDIA's library names, with the products they belong to.
pub(crate) const PRODUCTS: [(&str, &str); 7] = if IS_WINDOWS {
    [
        ("cudnn", "cuDNN"),
        ("cublas", "cuBLAS"),
        ("cudart64", "CUDA runtime"),
        ("nvrtc", "NVRTC"),
        ("nvjitlink", "nvJitLink"),
        ("nvcuda.dll", "driver"),
        ("nvptxjitcompiler", "driver"),
    ]
} else {
    [
        ("libcudnn", "cuDNN"),
        ("libcublas", "cuBLAS"),
        ("libcudart", "CUDA runtime"),
        ("libnvrtc", "NVRTC"),
        ("libnvJitLink", "nvJitLink"),
        ("libcuda.so", "driver"),
        ("libnvidia-ptxjitcompiler", "driver"),
    ]
};

/// Returns musl's dynamic loader on a system that has none of glibc.
pub(crate) fn musl_without_glibc() -> Option<&'static str> {
    let (musl, glibc) = match (Os::HOST, Architecture::HOST) {
        (Os::Windows, _) => return None,
        (_, Architecture::AARCH64) => ("/lib/ld-musl-aarch64.so.1", "/lib/ld-linux-aarch64.so.1"),
        _ => ("/lib/ld-musl-x86_64.so.1", "/lib64/ld-linux-x86-64.so.2"),
    };
    let exists = |loader: &str| Path::new(loader).target_exists();
    (exists(musl) && !exists(glibc)).then_some(musl)
}

/// Returns the product of a library by name, for cuDNN and parts of CUDA.
pub fn product(name: &str) -> Option<&'static str> {
    let name = as_compared(name);
    PRODUCTS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, product)| *product)
}

/// Returns the cuDNN major in the name of a shim, for example 8 for `libcudnn.so.8` and `cudnn64_8.dll`.
pub fn major_of_cudnn(name: &str) -> Option<u32> {
    let name = as_compared(name);
    let number = if IS_WINDOWS {
        name.strip_prefix("cudnn")?.split_once("64_")?.1.strip_suffix(".dll")?.to_owned()
    } else {
        name.strip_prefix("libcudnn")?.split_once(".so.")?.1.split('.').next()?.to_owned()
    };
    number.parse().ok()
}

/// Returns the version in a library's name, for example `12` for `libcublasLt.so.12` and `cublasLt64_12.dll`.
pub fn version_in_name(name: &str) -> Option<String> {
    if IS_WINDOWS {
        let version = name.rsplit_once("64_")?.1.strip_suffix(".dll")?;
        return Some(version.replace('_', "."));
    }
    name.split_once(".so.").map(|(_, version)| version.to_owned())
}

/// Returns the CUDA major of a library's version: 12 for `12.8`, and on Windows also for `120.0` and `129`.
pub fn cuda_major_in(version: &str) -> Option<u32> {
    let number = version.split('.').next()?;
    if IS_WINDOWS { number.get(..2)?.parse().ok() } else { number.parse().ok() }
}

fn as_compared(name: &str) -> String {
    if IS_WINDOWS { name.to_ascii_lowercase() } else { name.to_owned() }
}

/// Returns whether a path is unusable because of a symbolic link that leads to itself.
pub(crate) fn is_loop(error: &std::io::Error) -> bool {
    const ELOOP: i32 = 40;
    Os::HOST != Os::Windows && error.raw_os_error() == Some(ELOOP)
}

/// Returns whether the file could not be read because too many files are open, which is not a problem of the file.
pub(crate) fn is_too_many_open_files(error: &ProbeError) -> bool {
    matches!(error, ProbeError::Unreadable { error } if is_lack_of_files(error))
}

/// Returns the name or path for opening a driver library. On Windows it is a path in the system directory, because
/// files with this name elsewhere are unrelated.
pub fn system_library(name: &str) -> PathBuf {
    libraries::system_dir().map_or_else(|| name.into(), |dir| dir.join(name))
}

/// The help for a driver that crashes or hangs.
pub const DRIVER_HELP: &str = choose(
    "check that `nvidia-smi` works; if it fails or hangs, reboot, or reinstall the driver. If LD_LIBRARY_PATH leads to \
     another libcuda.so.1, remove that directory from it",
    "check that `nvidia-smi` works; if it fails or hangs, restart Windows, or reinstall NVIDIA's driver",
);

/// The help for a damaged driver library.
pub const DAMAGED_DRIVER_HELP: &str = choose(
    "cuDNN needs no change. In a container, start it with GPU access, which puts the host's library in place of that file: \
     `docker run --gpus all ...`. Elsewhere, or if the file stays: remove it, and reinstall NVIDIA's driver",
    "cuDNN needs no change: reinstall NVIDIA's driver, and remove copies of nvcuda.dll that are not in Windows' own directory",
);

/// Returns the text if it is a driver version such as `580.65.06`, which can be compared.
pub(crate) fn driver_version(text: &str) -> Option<&str> {
    const MAX_DIGITS: usize = 5;
    let is_number =
        |part: &str| (1..=MAX_DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.split('.').count();
    ((2..=4).contains(&count) && text.split('.').all(is_number)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_of_the_driver_is_one() {
        for text in ["580.65.06", "470.57", "535.104.5.1"] {
            assert_eq!(driver_version(text), Some(text));
        }
        for text in
            ["", "580", "580.", ".580", "580.65.06\u{1b}[31m", "r580.65", "580.65-beta", "1.2.3.4.5", "999999.1"]
        {
            assert_eq!(driver_version(text), None, "{text}");
        }
    }
}

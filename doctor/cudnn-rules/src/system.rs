//! Provides system-specific terms, such as the library loader, for use in messages.

use cudnn_probe::Os;

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

pub(crate) const DRIVER: &str = choose("libcuda.so.1", "nvcuda.dll");
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

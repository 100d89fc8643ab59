//! A wheel, with the paths of libraries and headers.

use std::path::{Path, PathBuf};

use cudnn_os::IS_WINDOWS;

include!("generated/releases.rs");

/// The environment variable with the cache directory. Default: `$XDG_CACHE_HOME/cudnn-shim` or `~/.cache/cudnn-shim`;
/// on Windows `%LOCALAPPDATA%\cudnn-shim`.
pub const CACHE_VARIABLE: &str = "CUDNN_FETCH_CACHE";

/// A wheel: a pinned one, or one of [`unpinned`](crate::unpinned).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// A short name: CUDA major and version (`cu12-9.28.0`), with a prefix for JIT wheels and other platforms.
    pub id: &'static str,
    /// The name of the package.
    pub package: &'static str,
    /// The version of the package.
    pub version: &'static str,
    /// The sha256 for each pinned platform: x86-64, then aarch64. Empty if the wheel is not pinned.
    pub sha256: &'static [&'static str],
    /// pip's platform name for a wheel of a different machine, which is only read.
    pub platform: Option<&'static str>,
    /// The size of the download in units of 10^6 bytes, or 0 if the wheel is not pinned.
    pub megabytes: u32,
}

impl Release {
    /// Returns whether the sha256 is known.
    pub fn is_pinned(&self) -> bool {
        !self.sha256.is_empty()
    }

    /// Returns whether this is a wheel of cuDNN, and not a library that cuDNN needs.
    pub fn is_cudnn(&self) -> bool {
        self.package.starts_with("nvidia-cudnn")
    }

    /// Returns cuDNN's major, minor and patch version. `None` for other packages.
    pub fn cudnn_version(&self) -> Option<[u32; 3]> {
        let mut numbers = self.is_cudnn().then(|| self.version.split('.'))?.map_while(|number| number.parse().ok());
        Some([numbers.next()?, numbers.next()?, numbers.next()?])
    }

    /// Returns the CUDA major version of this cuDNN. `None` for other packages.
    pub fn cuda_major(&self) -> Option<u32> {
        let (_, major) = self.is_cudnn().then(|| self.package.rsplit_once("-cu"))??;
        major.parse().ok()
    }

    /// Returns the part of the identifier that releases of this package and platform share, such as `cu12`, `jit-cu13`
    /// or `windows-cu13`. `None` for other packages.
    pub fn line(&self) -> Option<&'static str> {
        let [major, minor, patch] = self.cudnn_version()?;
        self.id.strip_suffix(&format!("-{major}.{minor}.{patch}"))
    }

    /// Returns whether this is a JIT-only wheel, without most of the libraries.
    pub fn is_jit(&self) -> bool {
        self.package.contains("-jit-")
    }

    /// Returns whether this is a wheel for Windows.
    pub fn is_windows(&self) -> bool {
        self.platform.is_some_and(|platform| platform.starts_with("win"))
    }

    /// Returns the target machine, to follow "for": pip's platform name, or this machine's.
    pub fn machine(&self) -> &'static str {
        self.platform.unwrap_or(if IS_WINDOWS { "Linux" } else { "this machine" })
    }

    fn product_dir(&self, unpacked: &Path) -> PathBuf {
        unpacked.join("nvidia").join(if self.is_jit() { "cudnn_jit" } else { "cudnn" })
    }

    /// Returns the directory of the libraries in the unpacked wheel.
    pub fn lib_dir(&self, unpacked: &Path) -> PathBuf {
        self.product_dir(unpacked).join(if self.is_windows() { "bin" } else { "lib" })
    }

    /// Returns the directory of the headers in the unpacked wheel.
    pub fn include_dir(&self, unpacked: &Path) -> PathBuf {
        self.product_dir(unpacked).join("include")
    }

    /// Returns the library that each cuDNN wheel must contain. `None` for other packages.
    pub(crate) fn graph_library(&self) -> Option<&'static str> {
        self.is_cudnn().then_some(if self.is_windows() { "cudnn_graph64_9.dll" } else { "libcudnn_graph.so.9" })
    }

    /// Returns the name of the release's directory in the cache.
    pub(crate) fn dir_name(&self) -> String {
        let suffix = if self.is_pinned() {
            self.platform.map(|platform| format!("-{platform}"))
        } else {
            Some("-unpinned".to_owned())
        };
        format!("{}-{}{}", self.package, self.version, suffix.unwrap_or_default())
    }

    /// Returns the line for a requirements file, with all hashes. An unpinned version may lack numbers.
    pub(crate) fn requirement(&self) -> String {
        if !self.is_pinned() {
            return format!("{}=={}.*\n", self.package, self.version);
        }
        let hashes: String = self.sha256.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
        format!("{}=={}{hashes}\n", self.package, self.version)
    }
}

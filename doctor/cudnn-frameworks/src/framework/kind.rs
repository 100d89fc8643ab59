//! The table of known frameworks from `data/kinds.json`: how to find them, their files, and the libraries that their
//! Python code opens. Each row was derived from wheels of the named releases.

use cudnn_probe::facts::{self, PathFacts};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cudnn_probe::{Host, Os, ProbeError, Version, dll_search, ld_so};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::releases::Citation;
use crate::environment::Environment;
use crate::files::matching;
use crate::package::distribution::Distribution;

/// All known frameworks. A test checks that the file is valid.
pub static KINDS: LazyLock<Vec<FrameworkKind>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/kinds.json")).unwrap_or_default());

/// A known framework.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrameworkKind {
    /// The display name: `PyTorch`.
    pub name: &'static str,
    /// The identifier for the command line and for programs: `torch`.
    pub id: &'static str,
    #[serde(rename = "note")]
    _note: IgnoredAny,
    /// The normalized names of the packages that contain the framework.
    pub packages: Vec<&'static str>,
    /// Packages with only a part of the framework, or without GPU code. They are used if no other package is installed.
    pub(crate) fallback_packages: Vec<&'static str>,
    /// Name prefixes of packages for AMD's ROCm, such as `cupy-rocm` for `cupy-rocm-5-0`.
    rocm_packages: Vec<&'static str>,
    /// A library that exists only in ROCm builds.
    pub(crate) rocm_library: Option<&'static str>,
    /// The conda packages that contain the framework.
    pub(crate) conda_packages: Vec<&'static str>,
    /// The packages in these lists that never use an NVIDIA GPU.
    cpu_packages: Vec<&'static str>,
    /// The module's directory below the import directory: `torch`. `{}` stands for the CUDA major version of the
    /// package.
    pub module: &'static str,
    /// The file with the framework's build settings.
    pub(crate) version_file: Option<VersionFile>,
    /// The framework compiles kernels for the present GPU (XLA, NVRTC).
    pub compiles_at_run_time: bool,
    /// The libraries that the Python code opens before the framework's own libraries.
    pub(crate) opens_first: PythonCode,
    pub(crate) linux: Binaries,
    /// The files on Windows. `None` if no Windows build with GPU support has been examined.
    pub(crate) windows: Option<Binaries>,
    /// The first release without GPU support on Windows.
    pub(crate) without_gpu_on_windows: Option<WithoutGpu>,
    /// How a program can make the framework find the CUDA and cuDNN wheels.
    pub(crate) finds_wheels: Option<FindsWheels>,
    /// Packages that need the same version as the framework, although the metadata does not require it.
    pub(crate) same_version: Vec<&'static str>,
    /// Only a part of the framework uses cuDNN; the rest works without it.
    pub is_cudnn_optional: bool,
    /// The framework that loads cuDNN for this one, if this one uses it without loading it.
    pub(crate) uses_cudnn_of: Option<UsesCudnnOf>,
    /// Programs import it next to another framework, which loads the CUDA libraries. It works with a JIT-only cuDNN.
    pub accompanies_others: bool,
    /// How the framework compares the loaded cuDNN with the version from the build.
    pub comparison: Comparison,
}

/// How a framework uses the cuDNN that another one loads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsesCudnnOf {
    /// The [`FrameworkKind::id`] of the other framework. The other framework's row comes first.
    pub(crate) framework: &'static str,
    /// The only release of the other framework for which cuDNN is compared with the minimum in
    /// [`releases`](super::releases).
    #[serde(default)]
    pub(crate) release: Option<&'static str>,
    /// The part that refuses to work with an older cuDNN.
    #[serde(default)]
    minimum_is_for: Option<&'static str>,
}

/// The first release without GPU support, with a source.
#[derive(Debug, Deserialize)]
pub(crate) struct WithoutGpu {
    pub(crate) since: &'static str,
    #[serde(flatten)]
    pub(crate) source: Citation,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FindsWheels {
    pub(crate) function: &'static str,
    pub(crate) since: &'static str,
    /// The first known release that searches the wheels of CUDA 13 in `nvidia/cu13`.
    pub(crate) since_for_cuda_13: &'static str,
    /// Prefixes of the libraries that the function and the module load on Linux.
    pub(crate) loads: Vec<&'static str>,
    /// Another framework's module that opens the same libraries on import, which is also its [`FrameworkKind::id`].
    pub(crate) module: &'static str,
    /// When the program has to do this.
    pub(crate) before: &'static str,
}

/// The binary files of a framework on one system, as patterns below the module's directory.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Binaries {
    /// The libraries that the Python code loads, in this order.
    pub(crate) libraries: Vec<&'static str>,
    /// Libraries that are opened in the same way, but do not affect the choice of cuDNN.
    pub(crate) also_opens: Vec<&'static str>,
    /// At least one of these libraries exists in every build. Empty if this applies to `libraries`.
    always_there: Vec<&'static str>,
    /// The library with the prebuilt kernels. `None` if no such kernels matter.
    pub(crate) kernels: Option<&'static str>,
    /// The library that opens cuDNN by name, if no library is linked to cuDNN.
    pub(crate) opens_by_name: Option<ByName>,
    /// The required CUDA libraries that the framework opens by name, by CUDA major version.
    pub(crate) opens_cuda: BTreeMap<u32, Vec<&'static str>>,
    /// Windows: the DLLs that the Python code opens first by path, in alphabetical order, after it has added their
    /// directory to the DLL search path.
    pub(crate) opens_first: Option<&'static str>,
    /// Windows: the Python code also adds conda's DLL directory, `Library\bin` in the environment.
    pub(crate) adds_library_bin: bool,
    /// Windows: the library that the Python code opens by path when it uses a GPU.
    pub(crate) provider: Option<&'static str>,
    /// Windows: the variable with a directory, in which `bin` is searched for CUDA instead of the working directory.
    pub(crate) searches_bin_of: Option<&'static str>,
    /// The package contains cuDNN.
    contains_cudnn: bool,
}

impl Binaries {
    /// Returns libraries, at least one of which exists in every build.
    pub(crate) fn always_there(&self) -> &[&'static str] {
        if self.always_there.is_empty() { &self.libraries } else { &self.always_there }
    }

    /// Returns whether the framework's libraries are readable. Only then can they prove that the framework works
    /// without cuDNN.
    pub(crate) fn are_complete(&self, dir: &Path, os: Os) -> bool {
        let is_readable = |file: &PathBuf| needed(file, os).is_ok();
        let has_one = |pattern: &str| matching(dir, pattern).iter().any(is_readable);
        let has_all = |pattern: &&str| matching(dir, pattern).iter().all(is_readable);
        self.always_there().iter().any(|pattern| has_one(pattern))
            && self.libraries.iter().all(has_all)
            && self.kernels.is_none_or(has_one)
    }
}

/// Returns the names of the libraries that a file is linked to.
pub(crate) fn needed(file: &Path, os: Os) -> Result<Vec<String>, ProbeError> {
    if os == Os::Windows { dll_search::imports(file) } else { ld_so::needed(file) }
}

/// How a framework compares the cuDNN at run time with the cuDNN that it was built with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub enum Comparison {
    /// Requires the same major version and at least the same minor version. Ignores the patch level.
    Minor,
    /// Requires the same major version and at least the same version.
    Patch,
    /// Checks only the major version, through the name of the library.
    #[default]
    Major,
}

impl Comparison {
    /// Returns whether a framework that was built for `wanted` accepts `found`.
    pub fn accepts(self, wanted: Version, found: Version) -> bool {
        wanted.major == found.major
            && match self {
                Comparison::Major => true,
                Comparison::Minor => found.minor >= wanted.minor,
                Comparison::Patch => found >= wanted,
            }
    }
}

/// The file with a framework's build settings, and the names of these settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionFile {
    pub(crate) path: &'static str,
    pub(crate) format: VersionFileFormat,
    pub(crate) cuda: &'static str,
    #[serde(default)]
    pub(crate) cudnn: &'static str,
    #[serde(default)]
    pub(crate) is_gpu: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VersionFileFormat {
    /// Python assignments, one per line: `cuda: Optional[str] = '12.8'`.
    Assignments,
    /// Python tuples: `('cuda_version', '12.5.1')`.
    Tuples,
    /// JSON members: `"cuda": "12.x"`, and `"cudnn": {"version": "8.8.1"`.
    Json,
}

/// The libraries that a framework's Python code opens before the framework's own.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct PythonCode {
    pub(crate) dependencies: Option<Dependencies>,
    /// For each pair, opens `nvidia/DIR/lib/NAME` from the first import directory that contains `nvidia/DIR`.
    pub(crate) nvidia_modules: Vec<Wheel>,
    pub(crate) toolkit_or_wheel: Option<ToolkitOrWheel>,
    pub(crate) first_wheel: Option<FirstWheel>,
}

/// cudnn-frontend's method: opens the library from the first directory with it, among `LD_LIBRARY_PATH` and then
/// `nvidia/DIR/lib` of the environment's own directory. If all lack it, opens it by name.
#[derive(Debug, Deserialize)]
pub(crate) struct FirstWheel {
    pub(crate) library: &'static str,
    pub(crate) dirs: Vec<&'static str>,
    /// Older releases open the wheels first.
    pub(crate) library_path_since: Release,
}

/// PyTorch's method: opens this file of the module. If that fails, opens the libraries from the wheels, and then the
/// file again. If the CUDA runtime was loaded with the file, some releases open all libraries from the wheels, and
/// others only the compilers.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependencies {
    pub(crate) file: &'static str,
    pub(crate) wheels: Vec<Wheel>,
    pub(crate) always_since: Release,
    pub(crate) compilers: Vec<Wheel>,
    pub(crate) compilers_since: Release,
}

/// Transformer Engine's method: searches the directories in these variables and the toolkit, and opens the last file
/// called `libcudnn.so*` in the first directory with such a file. If that fails, opens `libcudnn.so` by name, and
/// finally all libraries in these subdirectories of the import directory.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolkitOrWheel {
    pub(crate) variables: Vec<&'static str>,
    pub(crate) toolkit: &'static str,
    pub(crate) wheels: Vec<&'static str>,
}

/// The major and minor version of a framework.
pub(crate) type Release = (u32, u32);

/// A wheel's directory below `nvidia`, and the name or prefix of a library there: `libcudnn.so.`.
pub(crate) type Wheel = (&'static str, &'static str);

/// The library that opens cuDNN by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByName {
    /// The pattern below the module's directory.
    pub(crate) from: &'static str,
    /// Only some releases open cuDNN by name, so the library is searched for it.
    #[serde(default)]
    pub(crate) depends_on_release: bool,
}

impl FrameworkKind {
    pub(crate) fn distributions_in<'a>(&self, installed: &'a [Distribution]) -> Vec<&'a Distribution> {
        let found: Vec<&Distribution> = installed.iter().filter(|package| self.is_package(&package.name)).collect();
        let is_fallback = |package: &&Distribution| self.fallback_packages.contains(&package.name.as_str());
        if found.is_empty() { installed.iter().filter(is_fallback).collect() } else { found }
    }

    /// Returns whether the package with this normalized name contains the framework, for any GPU.
    pub fn is_package(&self, name: &str) -> bool {
        self.packages.contains(&name) || self.is_rocm_package(name)
    }

    pub(crate) fn is_rocm_package(&self, name: &str) -> bool {
        self.rocm_packages.iter().any(|start| name.starts_with(start))
    }

    /// Returns whether the package with this normalized name never uses an NVIDIA GPU.
    pub fn is_cpu_package(&self, name: &str) -> bool {
        self.cpu_packages.contains(&name)
    }

    /// Returns the source which says that Windows builds of this release lack GPU support.
    pub fn without_gpu_on_windows(&self, version: &str) -> Option<Citation> {
        let row = self.without_gpu_on_windows.as_ref()?;
        release_of(version).is_none_or(|of| Some(of) >= release_of(row.since)).then_some(row.source)
    }

    /// Returns the framework that loads cuDNN for this one. `None` if it loads cuDNN itself.
    pub fn cudnn_loader(&self) -> Option<&'static FrameworkKind> {
        let of = self.uses_cudnn_of.as_ref()?;
        KINDS.iter().find(|kind| kind.id == of.framework)
    }

    /// Returns what the framework refuses with a cuDNN older than the minimum, such as `multimodal models`. `None` if
    /// everything needs the minimum.
    pub fn minimum_is_for(&self) -> Option<&'static str> {
        self.uses_cudnn_of.as_ref()?.minimum_is_for
    }

    /// Returns whether the package for this system contains cuDNN. If so, other cuDNN packages are not used.
    pub fn contains_cudnn(&self, os: Os) -> bool {
        self.on(os).is_some_and(|binaries| binaries.contains_cudnn)
    }

    /// Returns the files for this system, if a build for it has been examined.
    pub(crate) fn on(&self, os: Os) -> Option<&Binaries> {
        if os == Os::Windows { self.windows.as_ref() } else { Some(&self.linux) }
    }

    /// Returns the first unreadable directory or file of the framework's libraries, and the system's error.
    pub(crate) fn closed(&self, dir: &Path, os: Os) -> Option<(PathBuf, String)> {
        let explain = |path: PathBuf, error: std::io::Error| {
            let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            is_denied.then(|| (path, format!("cannot be read: {error}")))
        };
        let libraries = &self.on(os)?.libraries;
        let dir_of = |pattern: &&str| pattern.rsplit_once('/').map_or(dir.to_owned(), |(below, _)| dir.join(below));
        let mut dirs = std::iter::once(dir.to_owned()).chain(libraries.iter().map(dir_of));
        let mut files = libraries.iter().flat_map(|pattern| matching(dir, pattern));
        dirs.find_map(|path| explain(path.clone(), facts::read_dir(path).err()?))
            .or_else(|| files.find_map(|path| explain(path.clone(), facts::open(&path).err()?)))
    }

    pub(crate) fn module_in(&self, distribution: &Distribution) -> Option<String> {
        if !self.module.contains("{}") {
            return Some(self.module.to_owned());
        }
        Some(self.module.replace("{}", &cuda_in_name(&distribution.name)?.to_string()))
    }

    /// Returns the module's directory. An editable package may have it in a different import directory.
    pub(crate) fn dir(&self, environment: &Environment, distribution: &Distribution) -> Option<PathBuf> {
        let module = self.module_in(distribution)?;
        let in_environment =
            || environment.import_dirs.iter().map(|dir| dir.join(&module)).find(|dir| dir.leads_to_dir());
        distribution.module_dir(&module).or_else(in_environment)
    }

    /// Returns whether the Python code opens libraries from this wheel directory.
    pub(crate) fn opens_below(&self, wheel_dir: &Path) -> bool {
        let code = &self.opens_first;
        let module = wheel_dir.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let of_major = module.strip_prefix("cu").is_some_and(|major| major.parse::<u32>().is_ok());
        let has_module = |wheels: &[Wheel]| wheels.iter().any(|(name, _)| *name == module);
        code.dependencies.as_ref().is_some_and(|opens| of_major || has_module(&opens.wheels))
            || has_module(&code.nvidia_modules)
            || code.first_wheel.as_ref().is_some_and(|opens| opens.dirs.contains(&module))
            || code.toolkit_or_wheel.iter().flat_map(|opens| &opens.wheels).any(|dir| wheel_dir.ends_with(dir))
    }

    /// Returns whether a framework library has a run path to this directory, which may be missing.
    pub(crate) fn has_run_path_to(&self, dir: &Path, wheel_dir: &Path, host: &Host) -> bool {
        let openers = self.linux.opens_by_name.iter().map(|by_name| by_name.from);
        let files = self.linux.libraries.iter().copied().chain(self.linux.kernels).chain(openers);
        let mut files = files.flat_map(|pattern| matching(dir, pattern));
        files.any(|file| ld_so::run_path_contains(&file, wheel_dir, host))
    }
}

/// Returns the CUDA major version in a package name: 12 for `jax-cuda12-plugin`, `cupy-cuda12x` and `tensorrt-cu12`.
pub(crate) fn cuda_in_name(package: &str) -> Option<u32> {
    package.split('-').find_map(|part| {
        let digits = part.strip_prefix("cuda").or_else(|| part.strip_prefix("cu"))?;
        let digits = digits.strip_suffix('x').unwrap_or(digits);
        // In older packages, the minor version follows: `cupy-cuda112`.
        digits.get(..2).filter(|_| digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
    })
}

/// Returns the major and minor version at the start of a version: 2.9 for `2.9.1+cu128`.
pub(crate) fn release_of(version: &str) -> Option<Release> {
    let mut numbers = version.split(|byte: char| !byte.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_frameworks_is_complete() {
        let kinds: Vec<FrameworkKind> = serde_json::from_str(include_str!("../../data/kinds.json")).unwrap();
        assert_eq!(kinds.len(), KINDS.len());
        for kind in &kinds {
            assert!(![kind.name, kind.id, kind.module].contains(&"") && !kind.packages.is_empty(), "{kind:?}");
            let loader = kind.uses_cudnn_of.as_ref().map(|of| of.framework);
            let is_first = |id| kinds.iter().take_while(|other| other.id != kind.id).any(|other| other.id == id);
            assert_eq!(kind.linux.libraries.is_empty(), loader.is_some_and(is_first), "{kind:?}");
            let row = kind.without_gpu_on_windows.as_ref();
            assert!(row.is_none_or(|row| release_of(row.since).is_some() && row.source.url.starts_with("https://")));
        }
    }
}

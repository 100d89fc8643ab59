//! Provides the table of known frameworks: how each is found, where its files are, which libraries its Python code opens.
//! The rows are in `data/kinds.json`; each was read from the wheels of the releases that it names.

use cudnn_probe::facts::{self, PathFacts};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use cudnn_probe::{Host, Os, ProbeError, Version, dll_search, ld_so};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::releases::Citation;
use crate::environment::Environment;
use crate::files::matching;
use crate::package::distribution::Distribution;

/// All known frameworks. A test checks that the file can be parsed; without it, none would be known.
pub static KINDS: LazyLock<Vec<Kind>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/kinds.json")).unwrap_or_default());

/// A framework.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kind {
    /// Its name: `PyTorch`.
    pub name: &'static str,
    /// The name for the command line and for programs: `torch`.
    pub id: &'static str,
    #[serde(rename = "note")]
    _note: IgnoredAny,
    /// The normalized names of the packages that contain it.
    pub packages: Vec<&'static str>,
    /// Packages that contain a part of it, or all of it without GPU code: they stand for it if no other is installed.
    pub(crate) fallback_packages: Vec<&'static str>,
    /// The starts of the names of packages that contain it for AMD's ROCm: `cupy-rocm` of `cupy-rocm-5-0`.
    rocm_packages: Vec<&'static str>,
    /// A library that only a build for ROCm has.
    pub(crate) rocm_library: Option<&'static str>,
    /// The packages of conda that contain it.
    pub(crate) conda_packages: Vec<&'static str>,
    /// The packages among all of these that never use a GPU of NVIDIA's.
    cpu_packages: Vec<&'static str>,
    /// The directory of its module below the import directory: `torch`. `{}` is the CUDA major version in the name of the
    /// package.
    pub module: &'static str,
    /// The file that states what it was built for.
    pub(crate) version_file: Option<VersionFile>,
    /// It compiles kernels for the GPU that it finds (XLA, NVRTC).
    pub compiles_at_run_time: bool,
    /// The libraries that its Python code opens before its own.
    pub(crate) opens_first: PythonCode,
    pub(crate) linux: Binaries,
    /// `None` if nobody has examined a build for Windows that uses a GPU.
    pub(crate) windows: Option<Binaries>,
    /// The first release without a build for Windows that uses a GPU.
    pub(crate) without_gpu_on_windows: Option<WithoutGpu>,
    /// How a program can have it find the wheels of CUDA and cuDNN, if it does not find them by itself.
    pub(crate) finds_wheels: Option<FindsWheels>,
    /// Packages that must have its version, which their metadata does not state.
    pub(crate) same_version: Vec<&'static str>,
    /// Only a part of it uses cuDNN, and it works without.
    pub is_cudnn_optional: bool,
    /// How it compares the release of cuDNN that it finds with the one that it was built with.
    pub comparison: Comparison,
}

/// A release, and where it was read that this one and later ones have no build that uses a GPU.
#[derive(Debug, Deserialize)]
pub(crate) struct WithoutGpu {
    pub(crate) since: &'static str,
    #[serde(flatten)]
    pub(crate) source: Citation,
}

/// How a program can have a framework find the wheels of CUDA and cuDNN.
#[derive(Debug, Deserialize)]
pub(crate) struct FindsWheels {
    /// Its own function for that.
    pub(crate) function: &'static str,
    /// The first release with the function.
    pub(crate) since: &'static str,
    /// The module, and the [`Kind::id`], of a framework that opens the same libraries when it is imported.
    pub(crate) module: &'static str,
    /// When the program must do it.
    pub(crate) before: &'static str,
}

/// The binary files of a framework on one system, as patterns below the module's directory.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Binaries {
    /// The libraries that its Python code loads, in this order.
    pub(crate) libraries: Vec<&'static str>,
    /// Further libraries that its Python code or these open, in the same way. They do not change which cuDNN it gets.
    pub(crate) also_opens: Vec<&'static str>,
    /// The libraries of which every build has one, if those are not `libraries`.
    always_there: Vec<&'static str>,
    /// The library with the kernels that it was built with. `None` if it has none that decide.
    pub(crate) kernels: Option<&'static str>,
    /// The library that opens cuDNN by name, if it does and if no library is linked to cuDNN.
    pub(crate) opens_by_name: Option<ByName>,
    /// The libraries of CUDA that it opens by name and cannot do without, by CUDA major version.
    pub(crate) opens_cuda: BTreeMap<u32, Vec<&'static str>>,
    /// On Windows: the DLLs that its Python code opens by their paths before these, in alphabetical order. It first adds
    /// their directory to those that Windows searches.
    pub(crate) opens_first: Option<&'static str>,
    /// On Windows: its Python code also adds `Library\bin` of the environment, conda's directory of DLLs.
    pub(crate) adds_library_bin: bool,
    /// On Windows: the one of `libraries` that its code opens by its path when it uses a GPU.
    pub(crate) provider: Option<&'static str>,
    /// On Windows: the variable whose directory `bin` is searched in place of the working directory, for CUDA.
    pub(crate) searches_bin_of: Option<&'static str>,
    /// Its package contains cuDNN.
    contains_cudnn: bool,
}

impl Binaries {
    /// The libraries of which every build has one.
    pub(crate) fn always_there(&self) -> &[&'static str] {
        if self.always_there.is_empty() { &self.libraries } else { &self.always_there }
    }

    /// Whether its libraries are there and can be read: only then do they show that none needs cuDNN.
    pub(crate) fn are_complete(&self, dir: &Path, os: Os) -> bool {
        let is_readable = |file: &PathBuf| needed(file, os).is_ok();
        let has_one = |pattern: &str| matching(dir, pattern).iter().any(is_readable);
        let has_all = |pattern: &&str| matching(dir, pattern).iter().all(is_readable);
        self.always_there().iter().any(|pattern| has_one(pattern))
            && self.libraries.iter().all(has_all)
            && self.kernels.is_none_or(has_one)
    }
}

/// The names of the libraries that a library for this system is linked to.
pub(crate) fn needed(file: &Path, os: Os) -> Result<Vec<String>, ProbeError> {
    if os == Os::Windows { dll_search::imports(file) } else { ld_so::needed(file) }
}

/// How a framework compares, when it runs, the cuDNN that it finds with the one that it was built with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub enum Comparison {
    /// The same major version, and at least the minor version. The patch level is ignored.
    Minor,
    /// The same major version, and at least this version.
    Patch,
    /// Not at all: the name of the library contains the major version, and that is all.
    #[default]
    Major,
}

impl Comparison {
    /// Whether a framework that was built for `wanted` accepts `found`.
    pub fn accepts(self, wanted: Version, found: Version) -> bool {
        wanted.major == found.major
            && match self {
                Comparison::Major => true,
                Comparison::Minor => found.minor >= wanted.minor,
                Comparison::Patch => found >= wanted,
            }
    }
}

/// The file of a framework that states what it was built for, and the names by which it does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionFile {
    pub(crate) path: &'static str,
    pub(crate) format: Format,
    pub(crate) cuda: &'static str,
    #[serde(default)]
    pub(crate) cudnn: &'static str,
    #[serde(default)]
    pub(crate) is_gpu: &'static str,
}

/// How a version file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Python assignments, one a line: `cuda: Optional[str] = '12.8'`.
    Assignments,
    /// Python tuples: `('cuda_version', '12.5.1')`.
    Tuples,
    /// Members of JSON: `"cuda": "12.x"`, and `"cudnn": {"version": "8.8.1"`.
    Json,
}

/// The libraries that a framework's Python code opens before its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct PythonCode {
    pub(crate) dependencies: Option<Dependencies>,
    /// It opens `nvidia/DIR/lib/NAME` for each of these pairs, from the first import directory that has `nvidia/DIR`.
    pub(crate) nvidia_modules: Vec<Wheel>,
    pub(crate) toolkit_or_wheel: Option<ToolkitOrWheel>,
}

/// PyTorch's way: it opens this file of the module. If that fails, it opens the wheels' libraries, then the file again.
/// If the CUDA runtime was loaded with the file, some releases open the wheels' libraries too, others the compilers alone.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependencies {
    pub(crate) file: &'static str,
    pub(crate) wheels: Vec<Wheel>,
    pub(crate) always_since: Release,
    pub(crate) compilers: Vec<Wheel>,
    pub(crate) compilers_since: Release,
}

/// Transformer Engine's way: it opens the last of the files `libcudnn.so*` below the directory in the first of these
/// variables that has one, or below the toolkit; else `libcudnn.so` by ld.so's rules; else all libraries in these
/// directories of the import directory.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolkitOrWheel {
    pub(crate) variables: Vec<&'static str>,
    pub(crate) toolkit: &'static str,
    pub(crate) wheels: Vec<&'static str>,
}

/// The major and minor version of a framework.
pub(crate) type Release = (u32, u32);

/// The directory of a wheel below `nvidia`, and the name of a library in it or its start: `libcudnn.so.`.
pub(crate) type Wheel = (&'static str, &'static str);

/// The library that opens cuDNN by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByName {
    /// Its pattern below the module's directory.
    pub(crate) from: &'static str,
    /// Some releases do so and others do not: its bytes have to show it.
    #[serde(default)]
    pub(crate) depends_on_release: bool,
}

impl Kind {
    /// The packages of this framework among those that are installed.
    pub(crate) fn distributions_in<'a>(&self, installed: &'a [Distribution]) -> Vec<&'a Distribution> {
        let found: Vec<&Distribution> = installed.iter().filter(|package| self.is_package(&package.name)).collect();
        let is_fallback = |package: &&Distribution| self.fallback_packages.contains(&package.name.as_str());
        if found.is_empty() { installed.iter().filter(is_fallback).collect() } else { found }
    }

    /// Whether the package with this normalized name contains it, for whatever GPU.
    pub fn is_package(&self, name: &str) -> bool {
        self.packages.contains(&name) || self.is_rocm_package(name)
    }

    /// Whether the package with this normalized name contains it for AMD's ROCm.
    pub(crate) fn is_rocm_package(&self, name: &str) -> bool {
        self.rocm_packages.iter().any(|start| name.starts_with(start))
    }

    /// Whether the package with this normalized name never uses a GPU of NVIDIA's.
    pub fn is_cpu_package(&self, name: &str) -> bool {
        self.cpu_packages.contains(&name)
    }

    /// Returns where it was read that no build of this release for Windows uses a GPU.
    pub fn without_gpu_on_windows(&self, version: &str) -> Option<Citation> {
        let row = self.without_gpu_on_windows.as_ref()?;
        release_of(version).is_none_or(|of| Some(of) >= release_of(row.since)).then_some(row.source)
    }

    /// Whether its package for this system contains cuDNN, so that no other package of cuDNN is used.
    pub fn contains_cudnn(&self, os: Os) -> bool {
        self.on(os).is_some_and(|binaries| binaries.contains_cudnn)
    }

    /// Its files for this system, if anybody has examined a build for that.
    pub(crate) fn on(&self, os: Os) -> Option<&Binaries> {
        if os == Os::Windows { self.windows.as_ref() } else { Some(&self.linux) }
    }

    /// The first directory or file among its libraries that this user may not read, and the system's reason.
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

    /// The path of its module below the import directory.
    pub(crate) fn module_in(&self, distribution: &Distribution) -> Option<String> {
        if !self.module.contains("{}") {
            return Some(self.module.to_owned());
        }
        Some(self.module.replace("{}", &cuda_in_name(&distribution.name)?.to_string()))
    }

    /// The directory of its module. An editable package has it in another import directory.
    pub(crate) fn dir(&self, environment: &Environment, distribution: &Distribution) -> Option<PathBuf> {
        let module = self.module_in(distribution)?;
        let in_environment =
            || environment.import_dirs.iter().map(|dir| dir.join(&module)).find(|dir| dir.leads_to_dir());
        distribution.module_dir(&module).or_else(in_environment)
    }

    /// Whether its Python code opens libraries in this directory of a wheel.
    pub(crate) fn opens_below(&self, wheel_dir: &Path) -> bool {
        let code = &self.opens_first;
        let module = wheel_dir.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let of_major = module.strip_prefix("cu").is_some_and(|major| major.parse::<u32>().is_ok());
        let has_module = |wheels: &[Wheel]| wheels.iter().any(|(name, _)| *name == module);
        code.dependencies.as_ref().is_some_and(|opens| of_major || has_module(&opens.wheels))
            || has_module(&code.nvidia_modules)
            || code.toolkit_or_wheel.iter().flat_map(|opens| &opens.wheels).any(|dir| wheel_dir.ends_with(dir))
    }

    /// Whether the run path of one of its libraries leads to this directory, which need not exist.
    pub(crate) fn has_run_path_to(&self, dir: &Path, wheel_dir: &Path, host: &Host) -> bool {
        let openers = self.linux.opens_by_name.iter().map(|by_name| by_name.from);
        let files = self.linux.libraries.iter().copied().chain(self.linux.kernels).chain(openers);
        let files = files.flat_map(|pattern| matching(dir, pattern));
        files.flat_map(|file| ld_so::run_path(&file, host)).flatten().any(|searched| normalized(&searched) == wheel_dir)
    }
}

/// The path without `..`, by its text alone.
fn normalized(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
        normal
    })
}

/// The CUDA major version in the name of a package: 12 for `jax-cuda12-plugin`, `cupy-cuda12x` and `tensorrt-cu12`.
pub(crate) fn cuda_in_name(package: &str) -> Option<u32> {
    package.split('-').find_map(|part| {
        let digits = part.strip_prefix("cuda").or_else(|| part.strip_prefix("cu"))?;
        let digits = digits.strip_suffix('x').unwrap_or(digits);
        // Older packages have the minor version in their names, too: `cupy-cuda112`.
        digits.get(..2).filter(|_| digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
    })
}

/// The major and minor version at the start of a version: 2.9 of `2.9.1+cu128`.
pub(crate) fn release_of(version: &str) -> Option<Release> {
    let mut numbers = version.split(|byte: char| !byte.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_with_the_rows_is_complete() {
        let kinds: Vec<Kind> = serde_json::from_str(include_str!("../../data/kinds.json")).unwrap();
        assert_eq!(kinds.len(), KINDS.len());
        for kind in &kinds {
            assert!(![kind.name, kind.id, kind.module].contains(&"") && !kind.packages.is_empty(), "{kind:?}");
            assert!(!kind.linux.libraries.is_empty(), "{kind:?}");
            let row = kind.without_gpu_on_windows.as_ref();
            assert!(row.is_none_or(|row| release_of(row.since).is_some() && row.source.url.starts_with("https://")));
        }
    }
}

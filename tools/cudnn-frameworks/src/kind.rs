//! The frameworks that this crate knows: how each is found, where its files are, what its Python code opens. One table,
//! and the questions that a row answers.

mod files;
mod rows;
mod wheels;

use std::path::{Path, PathBuf};

use cudnn_probe::{Os, Version};

use crate::distribution::Distribution;
use crate::environment::Environment;

pub(crate) use files::{fits, matching, read_text};
pub use rows::KINDS;

/// A framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Kind {
    /// Its name: `PyTorch`.
    pub name: &'static str,
    /// The name for the command line and for programs: `torch`.
    pub id: &'static str,
    /// The normalised names of the packages that contain it.
    pub packages: &'static [&'static str],
    /// Packages that contain a part of it, or all of it without GPU code: they stand for it if no other is installed.
    pub(crate) fallback_packages: &'static [&'static str],
    /// The starts of the names of packages that contain it for AMD's ROCm: `cupy-rocm` of `cupy-rocm-5-0`.
    pub(crate) rocm_packages: &'static [&'static str],
    /// A library that only a build for ROCm has.
    pub(crate) rocm_library: Option<&'static str>,
    /// The packages of conda that contain it.
    pub(crate) conda_packages: &'static [&'static str],
    /// The packages among all of these that never use a GPU of NVIDIA's.
    pub(crate) cpu_packages: &'static [&'static str],
    /// The directory of its module below the import directory: `torch`. `{}` is the CUDA major version in the name of the
    /// package.
    pub module: &'static str,
    /// The file that states what it was built for.
    pub(crate) version_file: VersionFile,
    /// The libraries that its Python code loads, in this order, as patterns below the module's directory.
    pub(crate) libraries: &'static [&'static str],
    /// Further libraries that its Python code or these open, in the same way. They do not change which cuDNN it gets.
    pub(crate) also_opens: &'static [&'static str],
    /// Libraries that every build has: without one of these, nothing can be said about what it needs.
    pub(crate) always_there: &'static [&'static str],
    /// The library with the kernels that it was built with. `None` if it has none that decide.
    pub(crate) kernels: Option<&'static str>,
    /// It compiles kernels for the GPU that it finds (XLA, NVRTC).
    pub compiles_at_run_time: bool,
    /// What its Python code opens before its libraries, in this order.
    pub(crate) opens_first: &'static [PythonStep],
    /// The library that opens cuDNN by name, if its libraries are not linked to it.
    pub(crate) opens_by_name: Option<ByName>,
    /// The libraries of CUDA that its libraries open by name and cannot do without, by CUDA major version.
    pub(crate) opens_cuda: &'static [(u32, &'static [&'static str])],
    /// How it is built for Windows, and what it opens there.
    pub(crate) on_windows: OnWindows,
    /// What a program can do to have it find the wheels of CUDA and cuDNN, if it does not find them by itself.
    pub(crate) finds_wheels: Option<FindsWheels>,
    /// Packages that must have its version, which their metadata does not state.
    pub(crate) same_version: &'static [&'static str],
    /// Only a part of it uses cuDNN, and it works without.
    pub is_cudnn_optional: bool,
    /// How it compares the release of cuDNN that it finds with the one that it was built with.
    pub comparison: Comparison,
}

/// What a program can do to have a framework find the wheels of CUDA and cuDNN.
#[derive(Debug)]
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

/// The files of a framework that is built for Windows, and how they are opened.
#[derive(Debug)]
pub(crate) enum OnWindows {
    /// Nobody has examined a build for Windows.
    Unexamined,
    /// From this release on, no build for Windows uses a GPU.
    WithoutGpu {
        since: Release,
        /// The document.
        url: &'static str,
    },
    /// These files.
    Dlls(Dlls),
}

/// The DLLs of a framework. All are patterns below the module's directory.
#[derive(Debug)]
pub(crate) struct Dlls {
    /// The DLLs that its Python code opens by their paths, in alphabetical order. It first adds their directory to those
    /// that Windows searches.
    pub(crate) opens: Option<&'static str>,
    /// Its Python code also adds `Library\bin` of the environment, conda's directory of DLLs.
    pub(crate) adds_library_bin: bool,
    /// Its extension module.
    pub(crate) module: &'static str,
    /// A DLL that its code opens by its path when it uses a GPU.
    pub(crate) provider: Option<&'static str>,
    /// The DLL with its kernels: without it, the build is for the CPU alone, or damaged.
    pub(crate) kernels: &'static str,
    /// The DLL that opens cuDNN by name, if it does and if no DLL imports it.
    pub(crate) opens_by_name: Option<&'static str>,
    /// The DLLs of CUDA that it opens by name and cannot do without, by CUDA major version.
    pub(crate) opens_cuda: &'static [(u32, &'static [&'static str])],
    /// The variable whose directory `bin` it has Windows search in place of the working directory, before it opens those.
    pub(crate) searches_bin_of: Option<&'static str>,
    /// Its package contains cuDNN.
    pub(crate) contains_cudnn: bool,
}

/// How a framework compares, when it runs, the cuDNN that it finds with the one that it was built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// The same major version, and at least the minor version. The patch level is ignored.
    Minor,
    /// The same major version, and at least this version.
    Patch,
    /// Not at all: the name of the library contains the major version, and that is all.
    Major,
}

impl Comparison {
    /// Whether a framework that was built for `wanted` accepts `found`.
    #[must_use]
    pub fn accepts(self, wanted: Version, found: Version) -> bool {
        wanted.major == found.major
            && match self {
                Comparison::Major => true,
                Comparison::Minor => found.minor >= wanted.minor,
                Comparison::Patch => found >= wanted,
            }
    }
}

/// The file of a framework that states what it was built for, and how it is written.
#[derive(Debug)]
pub(crate) enum VersionFile {
    /// Python assignments, one a line: `cuda: Optional[str] = '12.8'`.
    Assignments { path: &'static str, cuda: &'static str, cudnn: &'static str },
    /// Python tuples: `('cuda_version', '12.5.1')`.
    Tuples { path: &'static str, cuda: &'static str, cudnn: &'static str, is_gpu: &'static str },
    /// Members of JSON: `"cuda": "12.x"`, and `"cudnn": {"version": "8.8.1"`.
    Json { path: &'static str, cuda: &'static str, cudnn: &'static str },
    /// There is none.
    None,
}

/// A step of a framework's Python code before it loads its libraries.
#[derive(Debug)]
pub(crate) enum PythonStep {
    /// Opens this file of the module. If that fails, opens `on_failure` and then the file again; else, if the CUDA
    /// runtime was loaded with it, opens those of `on_success` that this release opens.
    Dependencies {
        file: &'static str,
        on_success: &'static [(Release, &'static [Wheel])],
        on_failure: &'static [Wheel],
    },
    /// Opens `nvidia/DIR/lib/NAME` for each of these pairs, from the first import directory that has `nvidia/DIR`.
    NvidiaModules(&'static [(&'static str, &'static str)]),
    /// Opens the last of the files `libcudnn.so*` below the directory in the first of these variables that has one, or
    /// below the directory after them; else `libcudnn.so` by ld.so's rules; else all libraries in these directories of
    /// the import directory.
    ToolkitOrWheel { variables: &'static [&'static str], toolkit: &'static str, wheels: &'static [&'static str] },
}

/// The major and minor version of a framework.
pub(crate) type Release = (u32, u32);

/// The directory of a wheel's libraries below `nvidia`, and the start of the file name: `libcudnn.so.`.
pub(crate) type Wheel = (&'static str, &'static str);

/// The library that opens cuDNN by name.
#[derive(Debug)]
pub(crate) struct ByName {
    /// Its pattern below the module's directory.
    pub(crate) from: &'static str,
    /// Some releases do so and others do not: its bytes have to show it.
    pub(crate) depends_on_release: bool,
}

impl Kind {
    /// The packages of this framework among those that are installed.
    pub(crate) fn distributions_in<'a>(&self, installed: &'a [Distribution]) -> impl Iterator<Item = &'a Distribution> {
        let is_installed = installed.iter().any(|distribution| self.is_package(&distribution.name));
        let is_fallback = |distribution: &Distribution| self.fallback_packages.contains(&distribution.name.as_str());
        installed.iter().filter(move |distribution| {
            if is_installed { self.is_package(&distribution.name) } else { is_fallback(distribution) }
        })
    }

    /// Whether the package with this normalised name contains it, for whatever GPU.
    #[must_use]
    pub fn is_package(&self, name: &str) -> bool {
        self.packages.contains(&name) || self.is_rocm_package(name)
    }

    /// Whether the package with this normalised name contains it for AMD's ROCm.
    pub(crate) fn is_rocm_package(&self, name: &str) -> bool {
        self.rocm_packages.iter().any(|start| name.starts_with(start))
    }

    /// Whether the package with this normalised name never uses a GPU of NVIDIA's.
    #[must_use]
    pub fn is_cpu_package(&self, name: &str) -> bool {
        self.cpu_packages.contains(&name)
    }

    /// The document that states that no build of this release for Windows uses a GPU.
    #[must_use]
    pub fn without_gpu_on_windows(&self, version: &str) -> Option<&'static str> {
        match &self.on_windows {
            OnWindows::WithoutGpu { since, url } if release_of(version).is_none_or(|of| of >= *since) => Some(url),
            _ => None,
        }
    }

    /// Whether its package for this system contains cuDNN, so that no other package of cuDNN is used.
    #[must_use]
    pub fn contains_cudnn(&self, os: Os) -> bool {
        matches!((os, &self.on_windows), (Os::Windows, OnWindows::Dlls(dlls)) if dlls.contains_cudnn)
    }

    /// Its DLLs, if a build for Windows was examined.
    pub(crate) fn dlls(&self) -> Option<&Dlls> {
        match &self.on_windows {
            OnWindows::Dlls(dlls) => Some(dlls),
            _ => None,
        }
    }

    /// The patterns of the libraries that its Python code loads, on this system.
    pub(crate) fn libraries_on(&self, os: Os) -> Vec<&'static str> {
        match (os, self.dlls()) {
            (Os::Windows, Some(dlls)) => std::iter::once(dlls.module).chain(dlls.provider).collect(),
            (Os::Windows, None) => Vec::new(),
            _ => self.libraries.to_vec(),
        }
    }

    /// The pattern of the library with its kernels, on this system.
    pub(crate) fn kernels_on(&self, os: Os) -> Option<&'static str> {
        match os {
            Os::Windows => self.dlls().map(|dlls| dlls.kernels),
            _ => self.kernels,
        }
    }

    /// The patterns of libraries that every build has, on this system.
    pub(crate) fn always_there_on(&self, os: Os) -> Vec<&'static str> {
        match os {
            Os::Windows => self.dlls().map(|dlls| dlls.module).into_iter().collect(),
            _ => self.always_there.to_vec(),
        }
    }

    /// The first directory or file among its libraries that this user may not read, and the system's reason.
    pub(crate) fn closed(&self, dir: &Path, os: Os) -> Option<(PathBuf, String)> {
        let libraries = self.libraries_on(os);
        let is_denied = |error: &std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
        let explain = |path: &Path, error: std::io::Error| {
            is_denied(&error).then(|| (path.to_owned(), format!("cannot be read: {error}")))
        };
        let dir_of = |pattern: &str| pattern.rsplit_once('/').map_or(dir.to_owned(), |(below, _)| dir.join(below));
        let dirs = std::iter::once(dir.to_owned()).chain(libraries.iter().map(|pattern| dir_of(pattern)));
        let closed_dir = |path: PathBuf| explain(&path, std::fs::read_dir(&path).err()?);
        let closed_file = |path: PathBuf| explain(&path, std::fs::File::open(&path).err()?);
        let files = || libraries.iter().flat_map(|pattern| matching(dir, pattern));
        dirs.into_iter().find_map(closed_dir).or_else(|| files().find_map(closed_file))
    }

    /// The path of its module below the import directory.
    pub(crate) fn module_in(&self, distribution: &Distribution) -> Option<String> {
        match (self.module.contains("{}"), cuda_in_name(&distribution.name)) {
            (true, Some(cuda)) => Some(self.module.replace("{}", &cuda.to_string())),
            (true, None) => None,
            (false, _) => Some(self.module.to_owned()),
        }
    }

    /// The directory of its module. An editable package has it in another import directory.
    pub(crate) fn dir(&self, environment: &Environment, distribution: &Distribution) -> Option<PathBuf> {
        let module = self.module_in(distribution)?;
        let in_environment = || environment.import_dirs.iter().map(|dir| dir.join(&module)).find(|dir| dir.is_dir());
        distribution.module_dir(&module).or_else(in_environment)
    }
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

/// The first file for a pattern below a module's directory.
pub(crate) fn first_matching(dir: &Path, pattern: &str) -> Option<PathBuf> {
    matching(dir, pattern).into_iter().next()
}

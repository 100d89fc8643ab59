//! Selects the first directory with a usable cuDNN 9, and records why earlier directories were rejected.

use crate::facts::{self, PathFacts, canonicalize};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cudnn_os::files::below;

use crate::error::ProbeError;
use crate::image::{Identity, damaged_symbol_table, identify, missing_symbols};
use crate::library::{Library, older_shim};
use crate::no_installation::{NoInstallation, RejectedCandidate};
use crate::platform::Os;
use crate::release_facts::has_library;
use crate::search::{Candidate, Origin, Search};
use crate::version::Version;

/// A directory with cuDNN 9 that contains a readable `libcudnn_graph.so.9` for this program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Installation {
    /// The directory with symbolic links resolved, which makes the path unique.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub dir: PathBuf,
    /// The reason for searching the directory.
    pub origin: Origin,
    /// The version of `libcudnn_graph.so.9`, which `cudnnGetVersion` returns as well.
    pub version: Version,
    /// The CUDA major version that it was built for, if the files contain it.
    pub cuda_major: Option<u32>,
}

impl Installation {
    /// Describes a cuDNN that the process has already loaded. The version comes from memory, and no files are read.
    #[must_use]
    pub fn from_loaded(dir: PathBuf, origin: Origin, version: Version, cuda_major: Option<u32>) -> Self {
        Installation { dir, origin, version, cuda_major }
    }

    /// Returns the path of a library, whether or not it exists.
    #[must_use]
    pub fn path(&self, library: Library) -> PathBuf {
        self.dir.join(library.file_name())
    }

    /// Returns whether the library exists. A dangling link counts as existing, because the resulting error is more
    /// useful.
    #[must_use]
    pub fn has(&self, library: Library) -> bool {
        self.path(library).path_exists()
    }

    /// Reads the CUDA major version from a library with GPU code. `libcudnn_graph.so.9` never contains GPU code.
    #[must_use]
    pub fn cuda_major_from_gpu_code(&self) -> Option<u32> {
        [Library::EnginesRuntimeCompiled, Library::Ops, Library::EnginesPrecompiled]
            .into_iter()
            .find_map(|library| identify(&self.path(library), library).ok()?.cuda_major)
    }

    /// Checks a library against the version and CUDA major version of the installation.
    ///
    /// # Errors
    /// Returns the reason why the library is unusable with this installation. [`ProbeError::NotInRelease`] means
    /// that the library was left over from a newer cuDNN and is not part of this release.
    pub fn check(&self, library: Library) -> Result<Identity, ProbeError> {
        if !has_library(self.version, library) {
            return Err(if self.has(library) {
                ProbeError::NotInRelease { version: self.version }
            } else {
                ProbeError::NotFound
            });
        }
        let identity = identify(&self.path(library), library)?;
        match identity.conflict(Some(self.version), self.cuda_major) {
            Some(error) => Err(error),
            None => Ok(identity),
        }
    }

    /// Returns the file that caused an error of [`Installation::check`], and the error for that file. If the libraries
    /// were built for two CUDA major versions, it is a file of the minority, such as a graph library that was installed
    /// over another one. Otherwise, it is the checked library.
    #[must_use]
    pub fn blame(&self, checked: Library, error: ProbeError) -> (PathBuf, ProbeError) {
        let ProbeError::MixedCuda { found, graph, .. } = error else { return (self.path(checked), error) };
        let mut like_checked = vec![checked];
        let mut like_graph = if checked == Library::Graph { Vec::new() } else { vec![Library::Graph] };
        let others = Library::ALL.iter().copied().filter(|library| {
            ![Library::Shim, Library::Graph, checked].contains(library) && has_library(self.version, *library)
        });
        for library in others {
            match identify(&self.path(library), library).ok().and_then(|identity| identity.cuda_major) {
                Some(major) if major == found => like_checked.push(library),
                Some(major) if major == graph => like_graph.push(library),
                _ => {}
            }
        }
        let (found, graph, mut minority) = if (1..like_checked.len()).contains(&like_graph.len()) {
            (graph, found, like_graph)
        } else {
            (found, graph, like_checked)
        };
        let first = minority.remove(0);
        (self.path(first), ProbeError::MixedCuda { found, graph, also: minority })
    }

    /// Compares the symbols that a library needs with the symbols that the dependencies define. This is the only way to
    /// check the release of engines and heuristics, which contain no version. It reads several hundred kilobytes.
    ///
    /// # Errors
    /// Returns [`ProbeError::OtherRelease`] if the symbols differ, or an error if a file cannot be read.
    pub fn check_symbols(&self, library: Library) -> Result<(), ProbeError> {
        let dependencies: Vec<PathBuf> = library.dependencies().iter().map(|other| self.path(*other)).collect();
        let file = self.path(library);
        let missing = missing_symbols(&file, &dependencies)?;
        if missing.is_empty() {
            return Ok(());
        }
        // In a damaged table, missing symbols do not prove a different release.
        let damage = dependencies.iter().chain([&file]).find_map(|file| damaged_symbol_table(file));
        Err(damage.unwrap_or(ProbeError::OtherRelease { missing }))
    }

    /// Returns whether a library in another directory belongs to the same release and, if known, CUDA major version.
    /// The release is read from the graph library next to it.
    #[must_use]
    pub fn matches(&self, library: Library, dir: &Path) -> bool {
        let other = Installation { dir: dir.to_owned(), ..self.clone() };
        [Library::Graph, library].into_iter().all(|library| other.check(library).is_ok())
    }
}

/// A check of an installation.
type Check = fn(&Installation) -> Result<(), ProbeError>;

/// The requirements of a program for an installation.
///
/// ```
/// use cudnn_probe::{Requirements, Version};
/// let requirements = Requirements::new().minimum(Version::new(9, 8, 0)).cuda_major(12).strict(true);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Requirements {
    /// The minimum version.
    pub minimum: Option<Version>,
    /// The required CUDA major version.
    pub cuda_major: Option<u32>,
    /// The check of all libraries, as a function pointer. Programs that do not use it therefore exclude the code.
    strict: Option<Check>,
}

impl PartialEq for Requirements {
    fn eq(&self, other: &Self) -> bool {
        let Requirements { minimum, cuda_major, strict } = self;
        // There is one check.
        (*minimum, *cuda_major, strict.is_some()) == (other.minimum, other.cuda_major, other.strict.is_some())
    }
}

impl Eq for Requirements {}

impl Requirements {
    /// Creates requirements that accept any cuDNN 9 for this processor.
    #[must_use]
    pub fn new() -> Self {
        Requirements::default()
    }

    /// Requires at least this version.
    #[must_use]
    pub fn minimum(mut self, version: Version) -> Self {
        self.minimum = Some(version);
        self
    }

    /// Requires a build for this CUDA major version.
    #[must_use]
    pub fn cuda_major(mut self, major: u32) -> Self {
        self.cuda_major = Some(major);
        self
    }

    /// Sets whether to reject an installation with a library that is damaged or belongs to a different release. By
    /// default, only the functions of that library fail.
    #[must_use]
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.strict = is_strict.then_some(check_every_library);
        self
    }

    /// Checks whether an installation meets the requirements. If necessary, the CUDA major version is read from GPU
    /// code.
    ///
    /// # Errors
    /// Returns the first requirement that is not met.
    pub fn check(&self, installation: &Installation) -> Result<(), ProbeError> {
        if let Some(wanted) = self.minimum.filter(|wanted| installation.version < *wanted) {
            return Err(ProbeError::TooOld { found: installation.version, wanted });
        }
        if self.cuda_major.is_none() && self.strict.is_none() {
            return Ok(());
        }
        let cuda_major = installation.cuda_major.or_else(|| installation.cuda_major_from_gpu_code());
        if let (Some(wanted), Some(found)) = (self.cuda_major, cuda_major)
            && wanted != found
        {
            return Err(ProbeError::WrongCuda { found, wanted });
        }
        self.strict.map_or(Ok(()), |check| check(&Installation { cuda_major, ..installation.clone() }))
    }
}

/// Checks whether all existing libraries are usable and belong to one release.
fn check_every_library(installation: &Installation) -> Result<(), ProbeError> {
    for library in Library::ALL.iter().copied() {
        match installation.check(library).and_then(|_| installation.check_symbols(library)) {
            // cuDNN does not open libraries that were left over from a newer release.
            Ok(()) | Err(ProbeError::NotFound | ProbeError::NotInRelease { .. }) => {}
            Err(error) => return Err(ProbeError::UnusableLibrary { library, error: Box::new(error) }),
        }
    }
    Ok(())
}

/// The result of [`select`].
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Selection {
    /// The first usable installation, if any.
    pub installation: Option<Installation>,
    /// The rejected directories before it, in order.
    pub rejected: Vec<RejectedCandidate>,
}

impl Selection {
    /// Returns the installation, or an error that contains the searched directories and help.
    ///
    /// ```
    /// use cudnn_probe::{Host, Requirements, Search, select};
    ///
    /// // In a build script:
    /// let search = Search::new(Host::current().without_executable());
    /// match select(&search, &Requirements::new()).into_result() {
    ///     Ok(found) => println!("cargo::rustc-env=CUDNN_VERSION={}", found.version),
    ///     Err(error) => error.report().lines().for_each(|line| println!("cargo::warning={line}")),
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if there is no usable installation.
    pub fn into_result(self) -> Result<Installation, NoInstallation> {
        self.installation.ok_or_else(|| NoInstallation::new(self.rejected))
    }
}

/// Searches for the first directory with a usable cuDNN. See the example on the crate page.
///
/// A complete installation takes precedence over a JIT-only installation with the same reason for searching, such as an
/// earlier directory of `LD_LIBRARY_PATH`.
#[must_use]
pub fn select(search: &Search, requirements: &Requirements) -> Selection {
    let mut rejected = Vec::new();
    // The first usable installation without the ops library, and the number of directories that were rejected before
    // it.
    let mut jit_only: Option<(Installation, usize)> = None;
    // A combined iterator over all stages would add about a kilobyte of code to each program.
    for stage in search.stages() {
        for candidate in stage(search.given()) {
            if jit_only.as_ref().is_some_and(|(found, _)| found.origin != candidate.origin) {
                break;
            }
            match check_dir(&candidate, requirements) {
                Ok(installation) if installation.has(Library::Ops) => {
                    return Selection { installation: Some(installation), rejected };
                }
                Ok(installation) => {
                    jit_only.get_or_insert((installation, rejected.len()));
                }
                Err(error) => rejected.push(RejectedCandidate { candidate, error }),
            }
        }
        if let Some((installation, count)) = jit_only {
            rejected.truncate(count);
            return Selection { installation: Some(installation), rejected };
        }
    }
    Selection { installation: None, rejected }
}

/// Checks a single directory.
///
/// # Errors
/// Returns the reason why the directory is unusable.
pub fn check_dir(candidate: &Candidate, requirements: &Requirements) -> Result<Installation, ProbeError> {
    if !candidate.dir.is_absolute() {
        return Err(ProbeError::NotAbsolute);
    }
    let graph = candidate.dir.join(Library::Graph.file_name());
    let identity = identify(&graph, Library::Graph).map_err(|error| match error {
        ProbeError::NotFound => explain_missing_graph(candidate),
        error => error,
    })?;
    let version = identity.version.ok_or_else(ProbeError::without_version)?;
    let dir = installation_dir(&graph).map_err(|error| ProbeError::Unreadable { error: error.into() })?;
    let installation = Installation { dir, origin: candidate.origin.clone(), version, cuda_major: identity.cuda_major };
    requirements.check(&installation)?;
    Ok(installation)
}

/// Returns the directory of the installation that contains this graph library, with links resolved. It is the directory
/// of the file itself or, if the engines are missing there, the directory of the link target. For example, Bazel
/// creates a directory with links for each library.
///
/// # Errors
/// Returns an error if the directory cannot be resolved.
pub fn installation_dir(graph: &Path) -> io::Result<PathBuf> {
    let dir = graph.parent().unwrap_or(graph);
    // A sandbox may not allow reading links.
    let as_it_is =
        |error: io::Error| if error.kind() == ErrorKind::PermissionDenied { Ok(dir.into()) } else { Err(error) };
    let dir = canonicalize(dir).or_else(as_it_is)?;
    // All releases contain these engines, even JIT-only installations.
    let engines = Library::EnginesRuntimeCompiled.file_name();
    if !dir.join(engines).target_exists()
        && let Ok(mut linked) = canonicalize(graph)
        && linked.pop()
        && linked.join(engines).target_exists()
    {
        return Ok(linked);
    }
    Ok(dir)
}

/// Determines why a directory does not contain `libcudnn_graph.so.9`. It may contain the file under the full name, an
/// older cuDNN, or the file in a subdirectory.
fn explain_missing_graph(Candidate { dir, origin, .. }: &Candidate) -> ProbeError {
    let is_named = matches!(origin, Origin::Explicit | Origin::Variable(_));
    let question = if is_named { "named directory without cuDNN" } else { "directory without cuDNN" };
    let explanation: Result<(), ProbeError> =
        facts::derive(question, dir, || Err(read_directory_without_graph(dir, is_named)));
    explanation.err().unwrap_or(ProbeError::NotFound)
}

/// Returns the version in a file name such as `libcudnn_graph.so.9.28.1`.
fn version_in(name: &str) -> Option<Version> {
    name.split_once(".so.")?.1.parse().ok()
}

fn read_directory_without_graph(dir: &Path, is_named: bool) -> ProbeError {
    let entries = match facts::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            return match error.kind() {
                ErrorKind::NotFound => ProbeError::NotFound,
                ErrorKind::NotADirectory => ProbeError::NotDirectory,
                _ => ProbeError::Unreadable { error: error.into() },
            };
        }
    };
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    let is_full_name = |name: &String| {
        let version = name.strip_prefix("libcudnn_graph.so.9.");
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    if Os::HOST == Os::Linux
        && let Some(file) = names.filter(is_full_name).max_by_key(|name| version_in(name))
    {
        return ProbeError::SonameLinkMissing { file };
    }
    if let Some((major, _)) = older_shim(dir, Os::HOST) {
        return ProbeError::OtherMajor { major };
    }
    // The default search includes these subdirectories anyway.
    let has_graph = |dir: &PathBuf| dir.join(Library::Graph.file_name()).target_exists();
    let subdirectories: &[&str] = match Os::HOST {
        Os::Linux => &["lib", "lib64", "nvidia/cudnn/lib"],
        Os::Windows => &["bin", "bin/x64", "nvidia/cudnn/bin", "Lib/site-packages/nvidia/cudnn/bin", "Library/bin"],
    };
    let subdirectories = subdirectories.iter().map(|subdirectory| below(dir, subdirectory));
    ProbeError::GraphMissing { found_in: subdirectories.filter(|_| is_named).find(has_graph) }
}

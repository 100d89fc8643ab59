//! From directories to an installation: the first directory with a usable cuDNN 9, and why the ones before it were
//! rejected.

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

/// A directory with a cuDNN 9 whose `libcudnn_graph.so.9` can be read and fits this program.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Installation {
    /// The directory, without symbolic links, so that an installation has one path.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub dir: PathBuf,
    /// Why it was searched.
    pub origin: Origin,
    /// Its version: that of `libcudnn_graph.so.9`, which `cudnnGetVersion` returns too.
    pub version: Version,
    /// The CUDA major version that it is built for, if the files state it.
    pub cuda_major: Option<u32>,
}

impl Installation {
    /// A cuDNN that a process has already loaded. Its version was read from memory; this reads no file.
    #[must_use]
    pub fn from_loaded(dir: PathBuf, origin: Origin, version: Version, cuda_major: Option<u32>) -> Self {
        Installation { dir, origin, version, cuda_major }
    }

    /// The path of one of its libraries, whether the file exists or not.
    #[must_use]
    pub fn path(&self, library: Library) -> PathBuf {
        self.dir.join(library.file_name())
    }

    /// Does the file of this library exist? A broken link counts, because its error is more useful than "does not
    /// exist".
    #[must_use]
    pub fn has(&self, library: Library) -> bool {
        self.path(library).path_exists()
    }

    /// The CUDA major version that it is built for, read from a library with GPU code. `libcudnn_graph.so.9` has none.
    #[must_use]
    pub fn cuda_major_from_gpu_code(&self) -> Option<u32> {
        [Library::EnginesRuntimeCompiled, Library::Ops, Library::EnginesPrecompiled]
            .into_iter()
            .find_map(|library| identify(&self.path(library), library).ok()?.cuda_major)
    }

    /// Reads one of its libraries, and compares its version and CUDA major version with those of the installation.
    ///
    /// # Errors
    /// The reason why the library cannot be used with this installation. [`ProbeError::NotInRelease`] means that the
    /// release does not have the library: it is left over from a newer cuDNN.
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

    /// The file to blame for an error of [`Installation::check`], and the error as a statement about that file. If the
    /// libraries are built for two CUDA major versions, that is a file of the minority, such as a graph library that
    /// was installed over another one; otherwise it is the checked library's own file.
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

    /// Compares the symbols that one of its libraries needs with those that the libraries it depends on define. Engines
    /// and heuristics state no version: only this shows that one is of another release. It reads some hundred
    /// kilobytes.
    ///
    /// # Errors
    /// [`ProbeError::OtherRelease`] if the symbols differ, or the reason why a file cannot be read.
    pub fn check_symbols(&self, library: Library) -> Result<(), ProbeError> {
        let dependencies: Vec<PathBuf> = library.dependencies().iter().map(|other| self.path(*other)).collect();
        let file = self.path(library);
        let missing = missing_symbols(&file, &dependencies)?;
        if missing.is_empty() {
            return Ok(());
        }
        // Symbols that cannot be found in a damaged table say nothing about releases.
        let damage = dependencies.iter().chain([&file]).find_map(|file| damaged_symbol_table(file));
        Err(damage.unwrap_or(ProbeError::OtherRelease { missing }))
    }

    /// Does a library in another directory belong to this release, and to this CUDA major version as far as it is known?
    /// The graph library beside it states its release.
    #[must_use]
    pub fn matches(&self, library: Library, dir: &Path) -> bool {
        let other = Installation { dir: dir.to_owned(), ..self.clone() };
        [Library::Graph, library].into_iter().all(|library| other.check(library).is_ok())
    }
}

/// A check of an installation.
type Check = fn(&Installation) -> Result<(), ProbeError>;

/// A program's requirements for an installation.
///
/// ```
/// use cudnn_probe::{Requirements, Version};
/// let requirements = Requirements::new().minimum(Version::new(9, 8, 0)).cuda_major(12).strict(true);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Requirements {
    /// The oldest version that is accepted.
    pub minimum: Option<Version>,
    /// The CUDA major version that it must be built for.
    pub cuda_major: Option<u32>,
    /// The check of every library: a function pointer, so that a program that never requires it contains no code for it.
    strict: Option<Check>,
}

impl Requirements {
    /// No requirements: any cuDNN 9 for this processor.
    #[must_use]
    pub fn new() -> Self {
        Requirements::default()
    }

    /// Requires this version or a newer one.
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

    /// Whether to reject an installation that contains a damaged library, or one of another release. Otherwise only the
    /// functions of that library fail.
    #[must_use]
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.strict = is_strict.then_some(check_every_library);
        self
    }

    /// Does this installation meet the requirements? Its CUDA major version is read from GPU code if necessary.
    ///
    /// # Errors
    /// The first requirement that it does not meet.
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

/// Are all libraries that exist usable, and of one release?
fn check_every_library(installation: &Installation) -> Result<(), ProbeError> {
    for library in Library::ALL.iter().copied() {
        match installation.check(library).and_then(|_| installation.check_symbols(library)) {
            // cuDNN does not open a library that is left over from a newer release.
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
    /// The first usable installation, if there is one.
    pub installation: Option<Installation>,
    /// The directories before it, in order.
    pub rejected: Vec<RejectedCandidate>,
}

impl Selection {
    /// The installation, or an error that reports what was searched and what to do.
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
    /// If there is no installation.
    pub fn into_result(self) -> Result<Installation, NoInstallation> {
        self.installation.ok_or_else(|| NoInstallation::new(self.rejected))
    }
}

/// Goes through the search's directories up to the first with a usable cuDNN. See the example of the crate.
///
/// A complete installation comes before a JIT-only one that is searched for the same reason, such as a later directory
/// of `LD_LIBRARY_PATH`.
#[must_use]
pub fn select(search: &Search, requirements: &Requirements) -> Selection {
    let mut rejected = Vec::new();
    // The first usable installation without ops, and the number of directories that were rejected before it.
    let mut jit_only: Option<(Installation, usize)> = None;
    // An iterator over the candidates of all stages would be a kilobyte of code in each program.
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

/// Checks one directory.
///
/// # Errors
/// The reason why it is not usable.
pub fn check_dir(candidate: &Candidate, requirements: &Requirements) -> Result<Installation, ProbeError> {
    if !candidate.dir.is_absolute() {
        return Err(ProbeError::NotAbsolute);
    }
    let graph = candidate.dir.join(Library::Graph.file_name());
    let identity = identify(&graph, Library::Graph).map_err(|error| match error {
        ProbeError::NotFound => explain_missing_graph(candidate),
        error => error,
    })?;
    let version = identity.version.ok_or_else(|| ProbeError::Malformed {
        reason: match Os::HOST {
            Os::Linux => "it does not state its version, as every libcudnn_graph.so.9 does",
            Os::Windows => "it does not state its version, as every cudnn_graph64_9.dll does",
        }
        .into(),
    })?;
    let dir = installation_dir(&graph).map_err(|error| ProbeError::Unreadable { error })?;
    let installation = Installation { dir, origin: candidate.origin.clone(), version, cuda_major: identity.cuda_major };
    requirements.check(&installation)?;
    Ok(installation)
}

/// The directory of the installation to which this file of the graph library belongs, with links resolved: its own, or,
/// if no engines are there, that of the file behind the link. Bazel gives each library a directory, with links to the
/// files of one installation.
///
/// # Errors
/// The system's, if the directory cannot be resolved.
pub fn installation_dir(graph: &Path) -> io::Result<PathBuf> {
    let dir = graph.parent().unwrap_or(graph);
    // A sandbox may deny reading links.
    let as_it_is =
        |error: io::Error| if error.kind() == ErrorKind::PermissionDenied { Ok(dir.into()) } else { Err(error) };
    let dir = canonicalize(dir).or_else(as_it_is)?;
    // All releases have these engines, and a JIT-only installation has little else.
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

/// Finds what a directory without `libcudnn_graph.so.9` contains instead: the file under its full name, an older cuDNN,
/// or a subdirectory with the file.
fn explain_missing_graph(Candidate { dir, origin, .. }: &Candidate) -> ProbeError {
    let is_named = matches!(origin, Origin::Explicit | Origin::Variable(_));
    let question = if is_named { "named directory without cuDNN" } else { "directory without cuDNN" };
    let explanation: Result<(), ProbeError> =
        facts::ask(question, dir, || Err(read_directory_without_graph(dir, is_named)));
    explanation.err().unwrap_or(ProbeError::NotFound)
}

fn read_directory_without_graph(dir: &Path, is_named: bool) -> ProbeError {
    let entries = match facts::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            return match error.kind() {
                ErrorKind::NotFound => ProbeError::NotFound,
                ErrorKind::NotADirectory => ProbeError::NotDirectory,
                _ => ProbeError::Unreadable { error },
            };
        }
    };
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_full_name = |name: &String| {
        let version = name.strip_prefix("libcudnn_graph.so.9.");
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    if Os::HOST == Os::Linux
        && let Some(file) = names.find(is_full_name)
    {
        return ProbeError::SonameLinkMissing { file };
    }
    if let Some((major, _)) = older_shim(dir, Os::HOST) {
        return ProbeError::OtherMajor { major };
    }
    // The default search looks into these subdirectories anyway.
    let has_graph = |dir: &PathBuf| dir.join(Library::Graph.file_name()).target_exists();
    let subdirectories: &[&str] = match Os::HOST {
        Os::Linux => &["lib", "lib64", "nvidia/cudnn/lib"],
        Os::Windows => &["bin", "bin/x64", "nvidia/cudnn/bin", "Lib/site-packages/nvidia/cudnn/bin", "Library/bin"],
    };
    let subdirectories = subdirectories.iter().map(|subdirectory| below(dir, subdirectory));
    ProbeError::GraphMissing { found_in: subdirectories.filter(|_| is_named).find(has_graph) }
}

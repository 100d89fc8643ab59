//! From folders to an installation: the first folder that holds a usable cuDNN 9, and why each before it does not.

use std::path::{Path, PathBuf};

use crate::{Identity, Library, Origin, ProbeError, Search, Version, identify};

/// A folder in which a cuDNN may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The folder.
    pub dir: PathBuf,
    /// Why it is looked at.
    pub origin: Origin,
}

/// A candidate that was looked at and not taken.
#[derive(Debug)]
pub struct RejectedCandidate {
    /// The candidate.
    pub candidate: Candidate,
    /// Why it was not taken.
    pub error: ProbeError,
}

/// A folder that holds a cuDNN 9 whose `libcudnn_graph.so.9` can be read and serves this program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Installation {
    /// The folder, without links in it, so that one installation has one path.
    pub dir: PathBuf,
    /// Why it was looked at.
    pub origin: Origin,
    /// Its version: that of `libcudnn_graph.so.9`, which `cudnnGetVersion` returns too.
    pub version: Version,
    /// The CUDA major that it was built for, where files tell.
    pub cuda_major: Option<u32>,
}

impl Installation {
    /// One of which is known already what this crate would read from files: a cuDNN that a process has loaded.
    #[must_use]
    pub fn from_loaded(folder: PathBuf, origin: Origin, version: Version, cuda_major: Option<u32>) -> Self {
        Installation { dir: folder, origin, version, cuda_major }
    }

    /// The path of one of its libraries, there or not.
    #[must_use]
    pub fn path(&self, library: Library) -> PathBuf {
        self.dir.join(library.file_name())
    }

    /// Is the file there?
    #[must_use]
    pub fn has(&self, library: Library) -> bool {
        // A file that is there and cannot be read counts as there: its own error says more than absence.
        self.path(library).symlink_metadata().is_ok()
    }

    /// The CUDA major that it was built for, from a library with GPU code where the installation itself does not tell:
    /// `libcudnn_graph.so.9` has none.
    #[must_use]
    pub fn cuda_major_from_gpu_code(&self) -> Option<u32> {
        [Library::EnginesRuntimeCompiled, Library::Ops, Library::EnginesPrecompiled]
            .into_iter()
            .find_map(|library| identify(&self.path(library), library).ok()?.cuda_major)
    }

    /// Reads one of its libraries, and holds it against the version and the CUDA major of the installation.
    ///
    /// # Errors
    /// Why it cannot be used with this installation.
    pub fn check(&self, library: Library) -> Result<Identity, ProbeError> {
        let identity = identify(&self.path(library), library)?;
        let too_old = identity.cuda_at_most.filter(|most| self.cuda_major.is_some_and(|graph| *most < graph));
        match (identity.version, too_old.or(identity.cuda_major), self.cuda_major) {
            (Some(found), _, _) if found != self.version => {
                Err(ProbeError::MixedVersions { found, graph: self.version })
            }
            (_, Some(found), Some(graph)) if found != graph => Err(ProbeError::MixedCuda { found, graph }),
            _ => Ok(identity),
        }
    }
}

/// What an installation must be to be taken.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Requirements {
    /// The oldest version that will do.
    pub minimum: Option<Version>,
    /// The CUDA major that it must have been built for.
    pub cuda_major: Option<u32>,
    /// Refuse a folder in which any library is damaged or of another version, instead of leaving that library's
    /// functions to fail.
    pub strict: bool,
}

impl Requirements {
    /// Does this installation meet them? The CUDA major is held against the files' where the installation does not
    /// tell.
    ///
    /// # Errors
    /// The first that it does not meet.
    pub fn check(&self, installation: &Installation) -> Result<(), ProbeError> {
        if let Some(wanted) = self.minimum.filter(|wanted| installation.version < *wanted) {
            return Err(ProbeError::TooOld { found: installation.version, wanted });
        }
        if self.cuda_major.is_none() && !self.strict {
            return Ok(());
        }
        let cuda_major = installation.cuda_major.or_else(|| installation.cuda_major_from_gpu_code());
        if let (Some(wanted), Some(found)) = (self.cuda_major, cuda_major)
            && wanted != found
        {
            return Err(ProbeError::WrongCuda { found, wanted });
        }
        if self.strict {
            let expected = Installation { cuda_major, ..installation.clone() };
            for library in Library::ALL {
                match expected.check(*library) {
                    Ok(_) | Err(ProbeError::NotFound) => {}
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        Ok(())
    }
}

/// What a search found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Selection {
    /// The first folder that serves, if any does.
    pub installation: Option<Installation>,
    /// Those looked at before it, in order.
    pub rejected: Vec<RejectedCandidate>,
}

/// Goes through the search's folders up to the first that serves.
#[must_use]
pub fn select(search: &Search, requirements: &Requirements) -> Selection {
    let mut considered = Vec::new();
    for candidate in search.candidates() {
        match check_dir(&candidate, requirements) {
            Ok(installation) => return Selection { installation: Some(installation), rejected: considered },
            Err(refusal) => considered.push(RejectedCandidate { candidate, error: refusal }),
        }
    }
    Selection { installation: None, rejected: considered }
}

/// Looks at one folder.
///
/// # Errors
/// Why it does not serve.
pub fn check_dir(candidate: &Candidate, requirements: &Requirements) -> Result<Installation, ProbeError> {
    if !candidate.dir.is_absolute() {
        return Err(ProbeError::NotAbsolute);
    }
    let graph = candidate.dir.join(Library::Graph.file_name());
    let identity = identify(&graph, Library::Graph).map_err(|refusal| match refusal {
        ProbeError::NotFound => explain_missing_graph(&candidate.dir).unwrap_or(ProbeError::NotFound),
        refusal => refusal,
    })?;
    let found = identity.version.ok_or_else(|| ProbeError::Malformed {
        what: "it does not state its version, as every libcudnn_graph.so.9 does".into(),
    })?;
    let folder = std::fs::canonicalize(&candidate.dir).map_err(|error| ProbeError::Unreadable { error })?;
    let installation =
        Installation { dir: folder, origin: candidate.origin.clone(), version: found, cuda_major: identity.cuda_major };
    requirements.check(&installation)?;
    Ok(installation)
}

/// What a folder without `libcudnn_graph.so.9` holds instead: the file under its full name, or an older cuDNN.
fn explain_missing_graph(folder: &Path) -> Option<ProbeError> {
    let full_name = |name: &str| name.starts_with("libcudnn_graph.so.9.");
    let mut names = std::fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    if let Some(file) = names.find(|name| full_name(name)) {
        return Some(ProbeError::SonameLinkMissing { file });
    }
    [8, 7]
        .into_iter()
        .find(|major| folder.join(format!("libcudnn.so.{major}")).exists())
        .map(|major| ProbeError::OtherMajor { major })
}

//! Identifies a file as a library of cuDNN.

use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::facts::{self, Subject};
use crate::library::Library;
use crate::platform::{Architecture, Os};
use crate::version::Version;

use super::file::LibraryFile;
use super::format::Format;
use super::{fatbin, wheel_metadata};

#[cfg(feature = "serde")]
crate::portable!(Identity);

/// The identity of a library, as determined from the file.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Identity {
    /// The path of the file.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub path: PathBuf,
    /// The cuDNN library.
    pub library: Library,
    /// The operating system of the library.
    pub os: Os,
    /// The processor architecture of the library.
    pub architecture: Architecture,
    /// The version, from the version symbol or the resources of a DLL. `None` for libraries without either, see
    /// [`Library::version_symbol`].
    pub version: Option<Version>,
    /// The CUDA major version, if the file or the surrounding wheel contains it.
    pub cuda_major: Option<u32>,
    /// The newest possible CUDA major version, if the GPU code or the run path only implies a limit.
    pub cuda_at_most: Option<u32>,
    /// The CUDA minor version, if the GPU code implies it. For example, 9 means CUDA 12.9.
    pub cuda_minor: Option<u32>,
    /// The names of dependencies (`DT_NEEDED`, or the imports of a PE file).
    pub needed: Vec<String>,
    /// The unexpanded run path: `DT_RUNPATH`, or otherwise `DT_RPATH`.
    pub run_path: Option<String>,
}

impl Identity {
    /// Returns why the library is incompatible with an installation of this version and CUDA major version. Unknown
    /// values are assumed to match.
    #[must_use]
    pub fn conflict(&self, version: Option<Version>, cuda_major: Option<u32>) -> Option<ProbeError> {
        if let (Some(found), Some(graph)) = (self.version, version)
            && found != graph
        {
            return Some(ProbeError::MixedVersions { found, graph });
        }
        let graph = cuda_major?;
        let other = self.cuda_major.filter(|found| *found != graph);
        let found = other.or(self.cuda_at_most.filter(|most| *most < graph))?;
        Some(ProbeError::MixedCuda { found, graph, also: Vec::new() })
    }
}

/// Identifies a file as a particular library of cuDNN 9 for this system and processor.
///
/// ```no_run
/// use cudnn_probe::{Library, identify};
/// match identify("/opt/cudnn/lib/libcudnn_graph.so.9".as_ref(), Library::Graph) {
///     Ok(graph) => println!("cuDNN {:?} for CUDA {:?}", graph.version, graph.cuda_major),
///     Err(error) => println!("/opt/cudnn/lib/libcudnn_graph.so.9 {error}"),
/// }
/// ```
///
/// # Errors
/// Returns an error if the file is a different library or invalid.
pub fn identify(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    identify_for(path, library, Architecture::HOST)
}

/// Like [`identify`], but for a specific processor. Build scripts use it for the target architecture.
///
/// # Errors
/// Returns an error if the file is a different library or invalid.
pub fn identify_for(path: &Path, library: Library, architecture: Architecture) -> Result<Identity, ProbeError> {
    let question = if architecture == Architecture::HOST { "identity" } else { "identity on another processor" };
    facts::ask(question, Subject::about(path, library.file_name()), || {
        read(path, library, &*LibraryFile::open_for(path, Os::HOST)?.parse(Some(architecture))?)
    })
}

/// Identifies a library with parsed headers.
pub(super) fn read(path: &Path, library: Library, format: &dyn Format) -> Result<Identity, ProbeError> {
    let os = format.os();
    let contents = format.contents()?;
    if contents.name.is_empty() {
        // For example, the end of the file was never downloaded and consists of zeros.
        return Err(ProbeError::Malformed { reason: "the library name is missing".into() });
    }
    if contents.name != library.name_on(os) {
        // cuDNN 8 uses different names, so the file was renamed.
        let older = format.resource_version().filter(|version| version.major < 9 && contents.name.starts_with("cudnn"));
        return Err(match older {
            Some(found) => ProbeError::WrongMajor { found },
            None => ProbeError::WrongSoname { found: contents.name, wanted: library },
        });
    }
    let version = library.version_symbol().and_then(|symbol| format.read_symbol(symbol)).map(Version::from_symbol);
    let version = version.or_else(|| format.resource_version());
    let cuda = format.gpu_code().map(|range| fatbin::cuda(range, format.data())).unwrap_or_default();
    let identity = Identity {
        path: path.to_owned(),
        library,
        os,
        architecture: format.architecture(),
        version,
        // The graph library contains no GPU code. Before it is loaded, only the run path and the wheel metadata
        // indicate the CUDA version.
        cuda_major: cuda.major.or_else(|| wheel_metadata::cuda_major(path)),
        cuda_at_most: cuda.at_most,
        cuda_minor: cuda.minor,
        needed: contents.needed,
        run_path: contents.run_path.map(|run_path| run_path.to_string_lossy().into_owned()),
    };
    match version {
        Some(found) if found.major != 9 => Err(ProbeError::WrongMajor { found }),
        _ => Ok(identity),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_in_conflict_with_another_version_and_another_cuda() {
        let (old, new) = (Some(Version::new(9, 10, 2)), Some(Version::new(9, 19, 0)));
        // Fields: version, CUDA, newest possible CUDA, and the values of the installation.
        for (version, cuda_major, cuda_at_most, installation, expected) in [
            (new, Some(12), None, (new, Some(12)), ""),
            (old, Some(12), None, (new, Some(12)), "is cuDNN 9.10.2, but the $ next to it is 9.19.0"),
            (None, None, None, (new, Some(12)), ""),
            (old, Some(12), None, (None, None), ""),
            (
                new,
                Some(13),
                None,
                (new, Some(12)),
                "is built for CUDA 13, but the libraries next to it are for CUDA 12",
            ),
            (new, None, Some(12), (new, Some(11)), ""),
            (new, None, Some(12), (new, Some(12)), ""),
            (
                new,
                None,
                Some(12),
                (new, Some(13)),
                "is built for CUDA 12, but the libraries next to it are for CUDA 13",
            ),
        ] {
            let identity = Identity {
                path: "/lib/libcudnn_ops.so.9".into(),
                library: Library::Ops,
                os: Os::Linux,
                architecture: Architecture::HOST,
                version,
                cuda_major,
                cuda_at_most,
                cuda_minor: None,
                needed: Vec::new(),
                run_path: None,
            };
            let conflict = identity.conflict(installation.0, installation.1).map(|error| error.to_string());
            let expected = expected.replace('$', Library::Graph.file_name());
            assert_eq!(conflict.unwrap_or_default(), expected, "{identity:?} {installation:?}");
        }
    }
}

//! Describes why a file or directory is unusable.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::escape::shown_path;
use crate::library::Library;
use crate::platform::{Architecture, Os};
use crate::version::Version;

#[cfg(feature = "serde")]
crate::portable!(ProbeError);

#[cfg(feature = "serde")]
impl<T: crate::facts::Portable + Clone> crate::facts::Answer for Result<T, ProbeError> {
    fn nothing() -> Self {
        Err(ProbeError::NotFound)
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

/// The reason why a file or directory is unusable.
///
/// `Display` prints one line that continues a path, such as "/opt/cudnn/lib/libcudnn_graph.so.9 is empty" for `"{path}
/// {error}"`. To get instructions for fixing the problem, run `cudnn-doctor`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ProbeError {
    /// The file or directory is missing.
    NotFound,
    /// The path is a symbolic link to a file that does not exist.
    BrokenLink {
        /// The target of the link.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        target: PathBuf,
    },
    /// The path exists but is not a directory.
    NotDirectory,
    /// The directory exists but does not contain `libcudnn_graph.so.9` (`cudnn_graph64_9.dll`).
    GraphMissing {
        /// A subdirectory that contains the file. Only explicit directories are searched for subdirectories.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        found_in: Option<PathBuf>,
    },
    /// Linux: the directory contains the library only under the full name, for example because a copy lost the symbolic
    /// links.
    SonameLinkMissing {
        /// The file name, such as `libcudnn_graph.so.9.10.2`.
        file: String,
    },
    /// The directory contains a cuDNN with another major version.
    OtherMajor {
        /// The major version.
        major: u32,
    },
    /// The path is relative, which would make the result depend on the working directory.
    NotAbsolute,
    /// The file exists but cannot be opened or read.
    Unreadable {
        /// The error of the operating system.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        error: Arc<io::Error>,
    },
    /// The path is a directory, pipe or device instead of a file.
    NotRegularFile {
        /// The kind of file, such as `a directory`.
        kind: Cow<'static, str>,
    },
    /// The file is neither an ELF file nor a DLL. Saved facts contain an older name.
    #[cfg_attr(feature = "serde", serde(rename = "NotElf"))]
    UnknownFormat {
        /// The first bytes of the file, at most 16. Empty if the file is empty.
        starts_with: Vec<u8>,
    },
    /// The file is shorter than the headers specify.
    Truncated {
        /// The minimum length according to the headers, in bytes.
        expected_len: u64,
        /// The actual length in bytes.
        length: u64,
    },
    /// The headers of the file are inconsistent.
    Malformed {
        /// The reason.
        reason: String,
    },
    /// The file is built for a different processor architecture.
    WrongArchitecture {
        /// The architecture of the file.
        found: Architecture,
        /// The required architecture.
        wanted: Architecture,
    },
    /// The file is built for a different operating system.
    WrongOs {
        /// The operating system of the file.
        found: Os,
        /// The required operating system.
        wanted: Os,
    },
    /// The name inside the library differs from the file name.
    WrongSoname {
        /// The internal name of the library (`DT_SONAME`, or the name in the export table of a DLL).
        found: String,
        /// The library that the file name represents.
        wanted: Library,
    },
    /// The major version of the library is not 9.
    WrongMajor {
        /// The version of the library.
        found: Version,
    },
    /// The library was left over from a newer release and is not part of this one.
    NotInRelease {
        /// The version of the installation.
        version: Version,
    },
    /// The installation is older than required.
    TooOld {
        /// The version of the installation.
        found: Version,
        /// The required minimum.
        wanted: Version,
    },
    /// The installation was built for a CUDA major version other than the required one.
    WrongCuda {
        /// The CUDA major version of the installation.
        found: u32,
        /// The required CUDA major version.
        wanted: u32,
    },
    /// The version of the library differs from the rest of the installation.
    MixedVersions {
        /// The version of the library.
        found: Version,
        /// The version of `libcudnn_graph.so.9`.
        graph: Version,
    },
    /// The library was built for a different CUDA major version than the rest of the installation.
    MixedCuda {
        /// The CUDA major version of the library.
        found: u32,
        /// The CUDA major version of the rest.
        graph: u32,
        /// Other libraries of the installation that were built for `found`.
        also: Vec<Library>,
    },
    /// The library comes from a different release than the rest of the installation, because it needs symbols that the
    /// rest does not define.
    OtherRelease {
        /// The missing symbols.
        missing: Vec<String>,
    },
    /// The library belongs to a different installation than the graph library that would load it.
    OtherInstallation {
        /// The directory of the graph library.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        graph: PathBuf,
    },
    /// A library of the installation is unusable.
    UnusableLibrary {
        /// The library.
        library: Library,
        /// The reason.
        error: Box<ProbeError>,
    },
    /// The process has already loaded cuDNN from a different directory.
    OtherLoaded {
        /// The directory of the loaded cuDNN.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        loaded: PathBuf,
        /// The version of the loaded cuDNN, if known.
        loaded_version: Option<Version>,
        /// The version of this cuDNN, if known.
        version: Option<Version>,
    },
    /// This installation is in use, but another directory is requested.
    OtherRequested {
        /// The requested directory.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        wanted: PathBuf,
    },
}

/// Formats the error as one line that continues a path.
impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::NotFound => f.write_str("does not exist"),
            ProbeError::BrokenLink { target } => {
                write!(f, "is a symbolic link to {}, which does not exist", shown_path(target))
            }
            ProbeError::NotDirectory => f.write_str("is not a directory"),
            ProbeError::GraphMissing { found_in: None } => write!(f, "contains no {}", Library::Graph),
            ProbeError::GraphMissing { found_in: Some(dir) } => {
                write!(f, "contains no {}, but {} does", Library::Graph, shown_path(dir))
            }
            ProbeError::SonameLinkMissing { file } => {
                write!(f, "contains {file:?}, but the symlink {:?}, which programs open, is missing", link_name(file))
            }
            ProbeError::OtherMajor { major } => write!(f, "contains cuDNN {major}, but cuDNN 9 is required"),
            ProbeError::NotAbsolute => f.write_str("is a relative path, which is never searched"),
            ProbeError::Unreadable { error } => write!(f, "cannot be read: {error}"),
            ProbeError::NotRegularFile { kind } => write!(f, "is {kind}, not a regular file"),
            ProbeError::UnknownFormat { starts_with } if starts_with.is_empty() => f.write_str("is empty"),
            ProbeError::UnknownFormat { starts_with } => {
                let kind = match Os::HOST {
                    Os::Linux => "an ELF file",
                    Os::Windows => "a DLL",
                };
                write!(f, "is not {kind}: its first bytes are \"{}\"", starts_with.escape_ascii())
            }
            ProbeError::Truncated { expected_len, length } => {
                write!(f, "is truncated: it has {length} bytes of at least {expected_len}")
            }
            ProbeError::Malformed { reason } => write!(f, "is damaged: {reason}"),
            ProbeError::WrongArchitecture { found, wanted } => {
                write!(f, "is built for {found}, but {wanted} is required")
            }
            ProbeError::WrongOs { found, wanted } => write!(f, "is built for {found}, but {wanted} is required"),
            ProbeError::WrongSoname { found, wanted } => {
                let has = match Os::HOST {
                    Os::Linux => "has the SONAME",
                    Os::Windows => "calls itself",
                };
                write!(f, "{has} {found:?} instead of {:?}", wanted.file_name())
            }
            ProbeError::WrongMajor { found } => write!(f, "is cuDNN {found}, but cuDNN 9 is required"),
            ProbeError::NotInRelease { version } => {
                write!(f, "does not belong to cuDNN {version}: it is left over from a newer release")
            }
            ProbeError::TooOld { found, wanted } => write!(f, "is cuDNN {found}, but {wanted} or newer is required"),
            ProbeError::WrongCuda { found, wanted } => {
                write!(f, "is built for CUDA {found}, but CUDA {wanted} is required")
            }
            ProbeError::MixedVersions { found, graph } => {
                write!(f, "is cuDNN {found}, but the {} next to it is {graph}", Library::Graph)
            }
            ProbeError::MixedCuda { found, graph, also } => {
                write!(f, "is built for CUDA {found}")?;
                for (index, library) in also.iter().enumerate() {
                    write!(f, "{}{library}", if index == 0 { ", like " } else { " and " })?;
                }
                write!(
                    f,
                    ", but the libraries next to {} are for CUDA {graph}",
                    if also.is_empty() { "it" } else { "them" }
                )
            }
            ProbeError::OtherRelease { missing } => {
                let count = missing.len();
                write!(
                    f,
                    "is from a different release than the libraries next to it, which lack {count} of the symbols that it \
                     needs"
                )?;
                missing.first().map_or(Ok(()), |first| write!(f, ", such as {first:?}"))
            }
            ProbeError::OtherInstallation { graph } => {
                write!(f, "does not belong to the {} in {}, which would load it", Library::Graph, shown_path(graph))
            }
            ProbeError::UnusableLibrary { library, error } => write!(f, "contains a {library} that {error}"),
            ProbeError::OtherLoaded { loaded, loaded_version, version } => {
                if let Some(version) = version {
                    write!(f, "is cuDNN {version}, and ")?;
                }
                f.write_str("cannot be loaded: the process has already loaded cuDNN ")?;
                if let Some(version) = loaded_version {
                    write!(f, "{version} ")?;
                }
                write!(f, "from {}", shown_path(loaded))
            }
            ProbeError::OtherRequested { wanted } => {
                write!(f, "is already in use and cannot be replaced by the requested one in {}", shown_path(wanted))
            }
        }
    }
}

/// Has no source, because the text contains the reason.
impl Error for ProbeError {}

/// Compares the texts, because an [`io::Error`] has no equality.
impl PartialEq for ProbeError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl ProbeError {
    /// Returns the error of a graph library without a version.
    #[must_use]
    pub fn without_version() -> Self {
        let reason = format!("it contains no version, but every genuine {} does", Library::Graph);
        ProbeError::Malformed { reason }
    }

    /// Returns whether cuDNN was not found at all, as opposed to a cuDNN that cannot be used.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            ProbeError::NotFound
            | ProbeError::NotDirectory
            | ProbeError::GraphMissing { found_in: None }
            | ProbeError::NotAbsolute => true,
            ProbeError::UnusableLibrary { error, .. } => error.is_absence(),
            _ => false,
        }
    }

    /// Returns whether the error concerns the directory itself, and not a file in it.
    pub(crate) fn is_about_dir(&self) -> bool {
        matches!(
            self,
            ProbeError::NotFound
                | ProbeError::NotDirectory
                | ProbeError::GraphMissing { .. }
                | ProbeError::SonameLinkMissing { .. }
                | ProbeError::OtherMajor { .. }
                | ProbeError::NotAbsolute
                | ProbeError::TooOld { .. }
                | ProbeError::WrongCuda { .. }
                | ProbeError::UnusableLibrary { .. }
                | ProbeError::OtherLoaded { .. }
                | ProbeError::OtherRequested { .. }
        )
    }
}

/// Returns `libcudnn_graph.so.9` for `libcudnn_graph.so.9.10.2`.
fn link_name(file: &str) -> &str {
    file.split_inclusive(".so.9").next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong() {
        let unreadable = |kind: io::ErrorKind| ProbeError::Unreadable { error: Arc::new(kind.into()) };
        let damaged = || ProbeError::Malformed { reason: "it has no DT_SONAME".into() };
        for (error, text) in [
            (ProbeError::UnknownFormat { starts_with: Vec::new() }, "is empty"),
            (ProbeError::UnknownFormat { starts_with: b"<html>\x1b".into() }, "its first bytes are \"<html>\\x1b\""),
            (unreadable(io::ErrorKind::PermissionDenied), "cannot be read: permission denied"),
            (ProbeError::OtherMajor { major: 8 }, "contains cuDNN 8, but"),
            (ProbeError::WrongCuda { found: 12, wanted: 13 }, "is built for CUDA 12, but CUDA 13"),
            (
                ProbeError::UnusableLibrary { library: Library::Ops, error: Box::new(damaged()) },
                match Os::HOST {
                    Os::Linux => "contains a libcudnn_ops.so.9 that is damaged: it has no DT_SONAME",
                    Os::Windows => "contains a cudnn_ops64_9.dll that is damaged: it has no DT_SONAME",
                },
            ),
        ] {
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.source().is_none(), "a chain of errors would repeat the reason: {error}");
            assert!(!error.is_absence(), "{error}");
        }
        assert!(ProbeError::NotDirectory.is_absence());
    }
}

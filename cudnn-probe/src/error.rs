//! Why a file or a directory cannot be used.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::escape::shown_path;
use crate::library::Library;
use crate::platform::{Architecture, Os};
use crate::version::Version;

#[cfg(feature = "serde")]
crate::portable!(ProbeError);

#[cfg(feature = "serde")]
impl<T: crate::portable::Portable> crate::facts::Answer for Result<T, ProbeError> {
    fn nothing() -> Self {
        Err(ProbeError::NotFound)
    }
}

/// Why a file or a directory cannot be used.
///
/// `Display` is one line that continues a path: `"{path} {error}"` reads "/opt/cudnn/lib/libcudnn_graph.so.9 is empty".
/// `cudnn-doctor` prints what to do about it.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ProbeError {
    /// There is no such file or directory.
    NotFound,
    /// A symbolic link to a file that does not exist.
    BrokenLink {
        /// The link's target.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        target: PathBuf,
    },
    /// The path exists and is not a directory.
    NotDirectory,
    /// The directory exists and has no `libcudnn_graph.so.9` (`cudnn_graph64_9.dll`).
    GraphMissing {
        /// A subdirectory that has one. The search looks for it only if the directory is an explicit one.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        found_in: Option<PathBuf>,
    },
    /// Linux: the directory has the file under its full name only, as after a copy that lost the symbolic links.
    SonameLinkMissing {
        /// The file's name: `libcudnn_graph.so.9.10.2`.
        file: String,
    },
    /// The directory has a cuDNN with another major version.
    OtherMajor {
        /// That major version.
        major: u32,
    },
    /// The path is relative: it would mean something else in every working directory.
    NotAbsolute,
    /// The file exists and cannot be opened or read.
    Unreadable {
        /// The operating system's error.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        error: io::Error,
    },
    /// A directory, a pipe, a device: it cannot be a library.
    NotRegularFile {
        /// The kind of file: `a directory`.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        kind: &'static std::primitive::str,
    },
    /// The file is no library: neither an ELF file nor a DLL.
    NotElf {
        /// Its first bytes, at most 16. None: the file is empty.
        starts_with: Vec<u8>,
    },
    /// The file is shorter than its headers state.
    Truncated {
        /// The length that the headers imply, in bytes, at least.
        expected_len: u64,
        /// Its length, in bytes.
        length: u64,
    },
    /// The file's headers contradict each other.
    Malformed {
        /// The reason.
        reason: String,
    },
    /// The file is built for another processor architecture.
    WrongArchitecture {
        /// The file's.
        found: Architecture,
        /// The required one.
        wanted: Architecture,
    },
    /// The file is built for another operating system.
    WrongOs {
        /// The file's.
        found: Os,
        /// The required one.
        wanted: Os,
    },
    /// The file is not the shared library that its file name promises.
    WrongSoname {
        /// The name that the library gives itself (`DT_SONAME`, or the name in a DLL's table of exports).
        found: String,
        /// The library that its file name stands for.
        wanted: Library,
    },
    /// The library's major version is not 9.
    WrongMajor {
        /// The library's version.
        found: Version,
    },
    /// The library does not belong to the installation's release: it is left over from a newer one.
    NotInRelease {
        /// The installation's version.
        version: Version,
    },
    /// The installation is older than required.
    TooOld {
        /// Its version.
        found: Version,
        /// The required minimum.
        wanted: Version,
    },
    /// The installation is built for another CUDA major version than required.
    WrongCuda {
        /// Its CUDA major version.
        found: u32,
        /// The required one.
        wanted: u32,
    },
    /// The library's version differs from the rest of its installation.
    MixedVersions {
        /// The library's version.
        found: Version,
        /// The version of `libcudnn_graph.so.9`.
        graph: Version,
    },
    /// The library is built for another CUDA major version than the rest of its installation.
    MixedCuda {
        /// The library's CUDA major version.
        found: u32,
        /// The one of the rest.
        graph: u32,
        /// The other libraries of the installation that are built for `found`.
        also: Vec<Library>,
    },
    /// The library is of another release than the rest of its installation: it needs symbols that the rest lacks.
    OtherRelease {
        /// The symbols.
        missing: Vec<String>,
    },
    /// The library belongs to another installation, and graph would load it.
    OtherInstallation {
        /// The directory of graph.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        graph: PathBuf,
    },
    /// A library of the installation cannot be used.
    UnusableLibrary {
        /// The library.
        library: Library,
        /// The reason.
        error: Box<ProbeError>,
    },
    /// The process has already loaded a cuDNN from another directory.
    OtherLoaded {
        /// The directory of the loaded one.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        loaded: PathBuf,
        /// The version of the loaded one, if it states one.
        loaded_version: Option<Version>,
        /// The version of this one, if it can be read.
        version: Option<Version>,
    },
    /// This installation is in use, and another directory is requested.
    OtherRequested {
        /// The requested directory.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        wanted: PathBuf,
    },
}

/// One line that continues a path.
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
            ProbeError::NotElf { starts_with } if starts_with.is_empty() => f.write_str("is empty"),
            ProbeError::NotElf { starts_with } => {
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
                write!(f, "is cuDNN {found}, but the {} beside it is {graph}", Library::Graph)
            }
            ProbeError::MixedCuda { found, graph, also } => {
                write!(f, "is built for CUDA {found}")?;
                for (index, library) in also.iter().enumerate() {
                    write!(f, "{}{library}", if index == 0 { ", like " } else { " and " })?;
                }
                write!(f, ", but the libraries beside {} for CUDA {graph}", if also.is_empty() { "it" } else { "them" })
            }
            ProbeError::OtherRelease { missing } => {
                let count = missing.len();
                write!(
                    f,
                    "is of another release than the libraries beside it: they lack {count} of the symbols that it needs"
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

impl Error for ProbeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ProbeError::Unreadable { error } => Some(error),
            ProbeError::UnusableLibrary { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl ProbeError {
    /// Returns whether there is nothing at all where cuDNN was looked for, rather than a cuDNN that cannot be used.
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

    /// Is the error about the directory itself, and not about a file in it?
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

/// `libcudnn_graph.so.9` for `libcudnn_graph.so.9.10.2`.
fn link_name(file: &str) -> &str {
    file.split_inclusive(".so.9").next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_wrong() {
        let unreadable = |kind: io::ErrorKind| ProbeError::Unreadable { error: kind.into() };
        let damaged = || ProbeError::Malformed { reason: "it has no DT_SONAME".into() };
        for (error, text) in [
            (ProbeError::NotElf { starts_with: Vec::new() }, "is empty"),
            (ProbeError::NotElf { starts_with: b"<html>\x1b".into() }, "its first bytes are \"<html>\\x1b\""),
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
            let has_source = matches!(error, ProbeError::Unreadable { .. } | ProbeError::UnusableLibrary { .. });
            assert_eq!(error.source().is_some(), has_source, "{error}");
            assert!(!error.is_absence(), "{error}");
        }
        assert!(ProbeError::NotDirectory.is_absence());
    }
}

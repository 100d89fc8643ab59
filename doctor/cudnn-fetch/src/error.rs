//! The reasons why a release could not be fetched.

use std::fmt;
use std::path::PathBuf;

use crate::python;
use crate::release::{CACHE_VARIABLE, RELEASES, Release};
use crate::verify::Damage;

/// The reason why a release could not be fetched.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// No pinned release has this identifier. Lists the identifiers of all pinned releases.
    Unknown(String, Vec<&'static str>),
    /// `CUDNN_FETCH_CACHE` and the home directory (on Windows, also `LOCALAPPDATA`) are not set.
    NoCacheDir,
    /// `CUDNN_FETCH_CACHE` is this relative path.
    RelativeCacheDir(PathBuf),
    /// pip reported success, but the unpacked release is damaged.
    Damaged(&'static Release, Damage),
    /// The cache has no intact copy, and the caller forbids downloads.
    Offline {
        /// The release.
        release: &'static Release,
        /// The release's directory in the cache.
        dir: PathBuf,
        /// The damage to the copy in the cache, or `None` if the copy is missing.
        damage: Option<Damage>,
    },
    /// pip cannot install a release for a different system.
    OtherSystem(&'static Release),
    /// pip could not be started, or failed, as the text describes.
    Pip(&'static Release, String),
    /// The directory of the release contains other files.
    Occupied(PathBuf),
    /// The cache directory could not be written: the path, and the OS error.
    Cache(PathBuf, std::io::Error),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Unknown(id, known) => {
                write!(f, "no pinned release is named {id:?}; choose one of {}", known.join(", "))
            }
            FetchError::NoCacheDir => {
                let other = if cudnn_os::IS_WINDOWS { "LOCALAPPDATA" } else { "HOME" };
                write!(f, "no cache directory: set {CACHE_VARIABLE} to an absolute path, or set {other}")
            }
            FetchError::RelativeCacheDir(path) => {
                write!(f, "{CACHE_VARIABLE} is the relative path {path:?}; set it to an absolute path")
            }
            FetchError::Damaged(release, damage) => write!(
                f,
                "pip installed {}=={}, but {damage}; check for a full disk, and for pip settings that change what it \
                 installs (`pip config list`, PIP_* variables)",
                release.package, release.version,
            ),
            FetchError::Offline { release, dir, damage } => {
                write!(f, "{} {} ", release.package, release.version)?;
                match damage {
                    Some(damage) => write!(f, "in the cache is damaged ({damage})")?,
                    None => write!(f, "is not in the cache ({dir:?})")?,
                }
                f.write_str(", and downloads are disabled; enable them, or unpack the wheel there")
            }
            FetchError::Pip(release, message) => write!(
                f,
                "cannot fetch {}=={}: {message}; this needs {} and access to the package index",
                release.package,
                release.version,
                python::requirement()
            ),
            FetchError::OtherSystem(release) => {
                let for_windows = RELEASES.iter().filter(|release| release.is_windows());
                let ids: Vec<&str> = for_windows.map(|release| release.id).collect();
                write!(f, "{} is for Linux; on Windows, fetch {}", release.id, ids.join(" or "))
            }
            FetchError::Occupied(path) => {
                write!(f, "{path:?} exists, and contains no part of this release: remove it, or name another directory")
            }
            FetchError::Cache(path, error) => {
                write!(
                    f,
                    "cannot write {path:?}: {error}; name another directory, or set {CACHE_VARIABLE} for the cache"
                )
            }
        }
    }
}

/// `source` is not implemented, because the text contains the reason.
impl std::error::Error for FetchError {}

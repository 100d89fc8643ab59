//! Pinned releases of cuDNN, fetched through pip, checked by sha256, kept in a cache folder.
//!
//! pip does the transport, the hash check and the unpacking; this crate says which wheel, and keeps each one once,
//! whole or not at all. It knows nothing of what is inside beyond the folders' names.

mod releases;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use releases::{RELEASES, Release};

/// The environment variable that names the cache folder. Without it: `$XDG_CACHE_HOME/cudnn-shim`, else
/// `~/.cache/cudnn-shim`.
pub const CACHE_VARIABLE: &str = "CUDNN_SHIM_CACHE";

/// May a release that is not in the cache be fetched?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Yes, through pip.
    Allowed,
    /// No: only the cache is looked at.
    Forbidden,
}

/// Why a release could not be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// No pinned release has this identifier.
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// Neither the variable nor a home folder says where to keep releases.
    NoCacheFolder,
    /// It is not in the cache, and fetching was forbidden.
    Offline {
        /// The release.
        release: &'static Release,
        /// Where it would be.
        folder: PathBuf,
    },
    /// pip could not be started, or ended with an error.
    Pip {
        /// The release.
        release: &'static Release,
        /// What happened.
        what: String,
    },
    /// The cache folder could not be written.
    Cache {
        /// The path.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Unknown { id } => {
                let known: Vec<_> = RELEASES.iter().map(|release| release.id).collect();
                write!(f, "no pinned release is called {id:?}; these are: {}", known.join(", "))
            }
            FetchError::NoCacheFolder => {
                write!(f, "no folder to keep releases in: set {CACHE_VARIABLE} to one, or HOME")
            }
            FetchError::Offline { release, folder } => write!(
                f,
                "{} {} is not in {} and fetching is forbidden; allow it, or put the unpacked wheel there",
                release.package,
                release.version,
                folder.display()
            ),
            FetchError::Pip { release, what } => write!(
                f,
                "cannot fetch {}=={}: {what}; needed are python3 with pip, and a way to the package index",
                release.package, release.version
            ),
            FetchError::Cache { path, error } => {
                write!(
                    f,
                    "cannot write {}: {error}; set {CACHE_VARIABLE} to a folder that can be written",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for FetchError {}

/// The pinned release with this identifier.
///
/// # Errors
/// [`FetchError::Unknown`].
pub fn release(id: &str) -> Result<&'static Release, FetchError> {
    RELEASES.iter().find(|release| release.id == id).ok_or_else(|| FetchError::Unknown { id: id.to_owned() })
}

/// The folder in which releases are kept.
///
/// # Errors
/// [`FetchError::NoCacheFolder`].
pub fn cache_folder() -> Result<PathBuf, FetchError> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder(CACHE_VARIABLE)
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("cudnn-shim")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache/cudnn-shim")))
        .ok_or(FetchError::NoCacheFolder)
}

/// The folder of an unpacked release, fetched first if it is not in the cache. pip's progress goes to stderr.
///
/// Two processes may fetch at once: each unpacks into a folder of its own, and the first to finish gives its folder
/// the final name.
///
/// # Errors
/// All of [`FetchError`] but `Unknown`.
pub fn fetch(release: &'static Release, network: Network) -> Result<PathBuf, FetchError> {
    let cache = cache_folder()?;
    let folder = cache.join(release.folder_name());
    if folder.is_dir() {
        return Ok(folder);
    }
    if network == Network::Forbidden {
        return Err(FetchError::Offline { release, folder });
    }
    let write_error = |path: &Path| {
        let path = path.to_owned();
        move |error| FetchError::Cache { path, error }
    };
    let unfinished = cache.join(format!(".{}-{}", release.folder_name(), std::process::id()));
    std::fs::create_dir_all(&unfinished).map_err(write_error(&unfinished))?;
    let result = install(release, &unfinished).and_then(|()| match std::fs::rename(&unfinished, &folder) {
        // Another process was first: its folder holds the same files.
        Err(_) if folder.is_dir() => Ok(()),
        renamed => renamed.map_err(write_error(&folder)),
    });
    if unfinished.exists() {
        // Nothing refers to it: what cannot be removed is only disk space.
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    result.map(|()| folder)
}

fn install(release: &'static Release, target: &Path) -> Result<(), FetchError> {
    let failed = |what: String| FetchError::Pip { release, what };
    // Hashes are checked only for requirements that come from a file.
    let requirement = target.join("requirement.txt");
    std::fs::write(&requirement, release.requirement())
        .map_err(|error| FetchError::Cache { path: requirement.clone(), error })?;
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| OsString::from("python3"));
    let status = Command::new(&python)
        .args(["-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir"])
        .args(["--disable-pip-version-check", "--no-input", "--require-hashes", "--target"])
        .arg(target)
        .arg("--requirement")
        .arg(&requirement)
        .env_remove("PIP_REQUIRE_VIRTUALENV")
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| failed(format!("cannot start {}: {error}", python.display())))?;
    if !status.success() {
        return Err(failed(format!("pip ended with {status}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_its_own_identifier_and_a_sha256() {
        for (index, release) in RELEASES.iter().enumerate() {
            assert!(RELEASES.iter().skip(index + 1).all(|other| other.id != release.id), "{} stands twice", release.id);
            assert!(!release.sha256.is_empty());
            for hash in release.sha256 {
                assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
            }
        }
    }

    #[test]
    fn an_unknown_identifier_names_the_known_ones() {
        let said = release("cu12-9.99.0").map(|found| found.id).map_err(|error| error.to_string());
        assert!(said.as_ref().is_err_and(|text| text.contains("cu12-9.28.0")), "{said:?}");
    }
}

//! Pinned releases of cuDNN, fetched through pip, checked by sha256, kept in a cache folder.
//!
//! pip does the transport, the hash check and the unpacking; this crate says which wheel, and keeps each one once,
//! whole or not at all. It knows nothing of what is inside beyond the folders' names.

mod releases;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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
    /// The variable names a relative path, which would mean something else in every working directory.
    RelativeCacheFolder {
        /// What it says.
        path: PathBuf,
    },
    /// pip said that all is well, and the release is not whole: a file of it is missing or has another size.
    Incomplete {
        /// The release.
        release: &'static Release,
        /// The file, or the list of files.
        file: PathBuf,
    },
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
            FetchError::RelativeCacheFolder { path } => {
                write!(f, "{CACHE_VARIABLE} is the relative path {path:?}: set it to an absolute one")
            }
            FetchError::Incomplete { release, file } => write!(
                f,
                "{}=={} did not come down whole: {} is missing or cut; see whether the disk is full, and whether pip's \
                 own settings (`pip config list`, PIP_ variables) let it install",
                release.package,
                release.version,
                file.display()
            ),
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
/// [`FetchError::NoCacheFolder`], [`FetchError::RelativeCacheFolder`].
pub fn cache_dir() -> Result<PathBuf, FetchError> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match folder(CACHE_VARIABLE) {
        Some(path) if path.is_absolute() => return Ok(path),
        Some(path) => return Err(FetchError::RelativeCacheFolder { path }),
        None => {}
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    folder("XDG_CACHE_HOME")
        .filter(absolute)
        .map(|cache| cache.join("cudnn-shim"))
        .or_else(|| folder("HOME").filter(absolute).map(|home| home.join(".cache/cudnn-shim")))
        .ok_or(FetchError::NoCacheFolder)
}

/// The folder of an unpacked release, fetched first if it is not in the cache. pip's progress goes to stderr.
///
/// A release in the cache is held against its own list of files each time, and one that is not whole is fetched again.
/// The threads of one process fetch one after the other. Two processes may fetch at once: each unpacks into a folder of
/// its own, and the first to finish gives its folder the final name.
///
/// # Errors
/// All of [`FetchError`] but `Unknown`.
pub fn fetch(release: &'static Release, network: Network) -> Result<PathBuf, FetchError> {
    fetch_into(release, &cache_dir()?, network)
}

/// As [`fetch`], with another folder in place of the cache: it is made, and holds a folder for each release.
///
/// # Errors
/// As [`fetch`], but for the cache folder's own.
pub fn fetch_into(release: &'static Release, cache: &Path, network: Network) -> Result<PathBuf, FetchError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let folder = cache.join(release.folder_name());
    // A thread that panicked meanwhile has left nothing behind that matters here.
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if missing_file(&folder).is_none() {
        return Ok(folder);
    }
    if network == Network::Forbidden {
        return Err(FetchError::Offline { release, folder });
    }
    let unfinished = staging_dir(cache, release)?;
    let result = install(release, &unfinished).and_then(|()| {
        if let Some(file) = missing_file(&unfinished) {
            return Err(FetchError::Incomplete { release, file });
        }
        if folder.exists() && missing_file(&folder).is_some() {
            // Moved out of the way in one step, so that nobody finds half of it; then removed with the rest.
            let _ = std::fs::rename(&folder, unfinished.join("not-whole"));
        }
        match std::fs::rename(&unfinished, &folder) {
            // Another process was first: its folder holds the same files.
            Err(_) if missing_file(&folder).is_none() => Ok(()),
            renamed => renamed.map_err(|error| FetchError::Cache { path: folder.clone(), error }),
        }
    });
    // What cannot be removed is only disk space.
    let _ = std::fs::remove_dir_all(&unfinished);
    let _ = std::fs::remove_dir_all(folder.join("not-whole"));
    result.map(|()| folder)
}

/// A new folder in the cache to unpack into.
fn staging_dir(cache: &Path, release: &Release) -> Result<PathBuf, FetchError> {
    let prefix = format!(".{}-", release.folder_name());
    let failed = |path: &Path, error| FetchError::Cache { path: path.to_owned(), error };
    std::fs::create_dir_all(cache).map_err(|error| failed(cache, error))?;
    remove_abandoned(cache, &prefix);
    for number in 0u32.. {
        let folder = cache.join(format!("{prefix}{}-{number}", std::process::id()));
        match std::fs::create_dir(&folder) {
            // Of a process that had this number before.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder.clone()).map_err(|error| failed(&folder, error)),
        }
    }
    Err(FetchError::NoCacheFolder)
}

/// Removes what a process that was killed left behind more than a day ago.
fn remove_abandoned(cache: &Path, prefix: &str) {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(prefix);
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > DAY) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The first file of an unpacked wheel that its own list (RECORD) has and the folder has not, or not in full length; the
/// list itself where there is none.
fn missing_file(folder: &Path) -> Option<PathBuf> {
    let record = std::fs::read_dir(folder).ok().and_then(|entries| {
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "dist-info"))
    });
    let record = record.unwrap_or_else(|| folder.to_owned()).join("RECORD");
    let Ok(text) = std::fs::read_to_string(&record) else { return Some(record) };
    // What lies outside is a program's start script, which pip puts elsewhere than it says when it is told a folder.
    text.lines().filter(|line| !line.starts_with("../")).find_map(|line| {
        // path,sha256=...,length; the list's own line has neither.
        let (rest, length) = line.rsplit_once(',')?;
        let (path, _) = rest.rsplit_once(',')?;
        let length: u64 = length.trim().parse().ok()?;
        let file = folder.join(path);
        std::fs::metadata(&file).map_or(true, |metadata| metadata.len() != length).then_some(file)
    })
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
        .args(release.platform.map(|platform| ["--platform", platform]).into_iter().flatten())
        // What would send the files elsewhere, or nowhere. Where to get them from (PIP_INDEX_URL) is the user's affair.
        .envs([("PIP_USER", "0"), ("PIP_DRY_RUN", "0"), ("PIP_NO_INSTALL", "0"), ("PIP_REQUIRE_VIRTUALENV", "0")])
        .env_remove("PIP_TARGET")
        .env_remove("PIP_PREFIX")
        .env_remove("PIP_ROOT")
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
    fn a_release_is_whole_when_every_file_of_its_list_is_there_in_full_length() {
        let folder = std::env::temp_dir().join(format!("cudnn-fetch-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&folder)).and_then(|()| std::fs::write(file, text)).is_ok()
        };
        assert_eq!(missing_file(&folder), Some(folder.join("RECORD")));
        assert!(write(
            "a-1.dist-info/RECORD",
            "lib/one,sha256=x,3\n\"with,comma\",sha256=y,\na-1.dist-info/RECORD,,\n"
        ));
        assert_eq!(missing_file(&folder), Some(folder.join("lib/one")));
        assert!(write("lib/one", "12"));
        assert_eq!(missing_file(&folder), Some(folder.join("lib/one")));
        assert!(write("lib/one", "123"));
        assert_eq!(missing_file(&folder), None);
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn an_unknown_identifier_names_the_known_ones() {
        let said = release("cu12-9.99.0").map(|found| found.id).map_err(|error| error.to_string());
        assert!(said.as_ref().is_err_and(|text| text.contains("cu12-9.28.0")), "{said:?}");
    }
}

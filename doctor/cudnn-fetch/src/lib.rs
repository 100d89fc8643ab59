//! Fetches releases of cuDNN through pip, checks the sha256 of pinned ones, and caches them.
//!
//! ```no_run
//! use cudnn_fetch::{Network, fetch, release};
//!
//! let release = release("jit-cu12-9.19.0")?;
//! let unpacked = fetch(release, Network::Allowed)?;
//! println!("libraries in {}", release.lib_dir(&unpacked).display());
//! # Ok::<(), cudnn_fetch::FetchError>(())
//! ```
//!
//! pip downloads, checks and unpacks the wheels. This crate lists them, manages the cache, and verifies every file of a
//! release before it returns the directory. It only relies on a wheel's directories and graph library.

mod cache;
mod error;
mod pip;
mod python;
mod release;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use cache::cache_dir;
pub use error::FetchError;
pub use pip::{pip, python};
pub use release::{CACHE_VARIABLE, RELEASES, Release};
pub use verify::{Damage, sha256, sha256_hex};

/// Whether a missing release may be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Yes, through pip.
    Allowed,
    /// No, use the cache only.
    Forbidden,
}

/// Returns the pinned release with this identifier. Without a version (`cu13`, `jit-cu12`), returns the newest pinned
/// one.
///
/// # Errors
/// [`FetchError::Unknown`].
pub fn release(id: &str) -> Result<&'static Release, FetchError> {
    let unknown = || FetchError::Unknown(id.to_owned(), RELEASES.iter().map(|release| release.id).collect());
    let newest = || RELEASES.iter().rev().find(|release| release.line() == Some(id));
    RELEASES.iter().find(|release| release.id == id).or_else(newest).ok_or_else(unknown)
}

/// Returns an unpinned release of cuDNN, such as `cu12-9.20` or `jit-cu13-9.20.0.48`: the newest one with these numbers
/// at the time of the first download. pip verifies it only against the package index.
///
/// Returns `None` unless the identifier is the [`line`](Release::line) of a pinned release for this machine, followed
/// by two to four numbers. The value is never freed.
pub fn unpinned(id: &str) -> Option<&'static Release> {
    let (line, version) = id.rsplit_once('-')?;
    let numbers: Vec<&str> = version.split('.').collect();
    let is_number = |text: &&str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(2..=4).contains(&numbers.len()) || !numbers.iter().all(is_number) {
        return None;
    }
    let pinned = RELEASES.iter().find(|release| release.platform.is_none() && release.line() == Some(line))?;
    let (id, version) = (id.to_owned().leak(), version.to_owned().leak());
    Some(Box::leak(Box::new(Release { id, version, sha256: &[], megabytes: 0, ..*pinned })))
}

/// Returns the directory of an unpacked release, which is downloaded if it is not in the cache. pip prints progress to
/// stderr.
///
/// Every call verifies the release and replaces a damaged one. The threads of a process take turns. If two processes
/// download the same release, the cache gets the first copy.
///
/// # Errors
/// Any [`FetchError`] except `Unknown`.
pub fn fetch(release: &'static Release, network: Network) -> Result<PathBuf, FetchError> {
    fetch_into(release, &cache_dir()?, network)
}

/// Like [`fetch`], with another cache directory, which is created.
///
/// # Errors
/// Like [`fetch`], without the errors of [`cache_dir`].
pub fn fetch_into(release: &'static Release, cache: &Path, network: Network) -> Result<PathBuf, FetchError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let dir = cache.join(release.dir_name());
    // The lock protects no data, so ignore panics of other threads.
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Err(damage) = verify::verify(&dir, release) else { return Ok(dir) };
    if network == Network::Forbidden {
        let damage = dir.exists().then_some(damage);
        return Err(FetchError::Offline { release, dir, damage });
    }
    if cudnn_os::IS_WINDOWS && !release.is_windows() {
        return Err(FetchError::OtherSystem(release));
    }
    if !verify::is_replaceable(&dir, release) {
        return Err(FetchError::Occupied(dir));
    }
    let staging = cache::staging_dir(cache, &release.dir_name())?;
    download(release, staging.path(), &dir).map(|()| dir)
}

/// Downloads a release into a staging directory, verifies it, and moves it to `dir`.
fn download(release: &'static Release, staging: &Path, dir: &Path) -> Result<(), FetchError> {
    let unpacked = staging.join("unpacked");
    pip::install(release, staging, &unpacked)?;
    verify::verify(&unpacked, release).map_err(|damage| FetchError::Damaged(release, damage))?;
    if dir.exists() && verify::verify(dir, release).is_err() {
        // A rename never shows other processes a partial release. The staging directory is removed at the end.
        let _ = std::fs::rename(dir, staging.join("damaged"));
    }
    match std::fs::rename(&unpacked, dir) {
        // Another process was faster.
        Err(_) if verify::verify(dir, release).is_ok() => Ok(()),
        renamed => renamed.map_err(|error| FetchError::Cache(dir.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_a_unique_identifier_and_a_sha256() {
        for (index, release) in RELEASES.iter().enumerate() {
            assert!(RELEASES.iter().skip(index + 1).all(|other| other.id != release.id), "{} twice", release.id);
            assert!(!release.sha256.is_empty());
            for hash in release.sha256 {
                assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
            }
        }
    }

    #[test]
    fn an_identifier_without_a_version_is_the_newest_pin() {
        for line in RELEASES.iter().filter_map(Release::line) {
            let newest = release(line).unwrap();
            let of_line = RELEASES.iter().filter(|release| release.line() == Some(line));
            assert!(of_line.clone().all(|release| release.cudnn_version() <= newest.cudnn_version()), "{line}");
        }
        assert!(release("cu12").unwrap().id.starts_with("cu12-9."));
        assert!(release("cu").is_err() && release("").is_err() && release("cu12-").is_err());
    }

    #[test]
    fn any_version_of_a_known_package_can_be_fetched() {
        let found = unpinned("jit-cu12-9.99").unwrap();
        assert_eq!((found.package, found.version, found.is_pinned()), ("nvidia-cudnn-jit-cu12", "9.99", false));
        assert_eq!(found.requirement(), "nvidia-cudnn-jit-cu12==9.99.*\n");
        assert_eq!(found.dir_name(), "nvidia-cudnn-jit-cu12-9.99-unpinned");
        let (pinned, same) = (release("cu12-9.28.0").unwrap(), unpinned("cu12-9.28.0").unwrap());
        assert!(pinned.is_pinned() && pinned.requirement().contains(" --hash=sha256:"));
        assert_eq!((same.package, same.cudnn_version()), (pinned.package, Some([9, 28, 0])));
        for id in ["9.20", "cu12-9", "cu12-", "cu12-9.x", "cu12-9.20.*", "cu12-9.1.2.3.4", "libclang-18.1", "cu12-9. 1"]
        {
            assert!(unpinned(id).is_none(), "{id}");
        }
    }

    #[test]
    fn an_unknown_identifier_names_the_known_ones() {
        let message = release("cu12-9.99.0").map(|found| found.id).map_err(|error| error.to_string());
        assert!(message.as_ref().is_err_and(|text| text.contains("cu12-9.28.0")), "{message:?}");
    }

    #[test]
    fn only_a_damaged_release_is_replaced() {
        let cache = std::env::temp_dir().join(format!("cudnn-fetch-occupied-{}", std::process::id()));
        let release = release("jit-cu12-9.19.0").unwrap();
        let dir = cache.join(release.dir_name());
        std::fs::create_dir_all(&dir).unwrap();
        assert!(verify::is_replaceable(&dir, release) && verify::is_replaceable(&cache.join("nothing"), release));
        std::fs::write(dir.join("thesis"), "text").unwrap();
        assert!(!verify::is_replaceable(&dir.join("thesis"), release));
        let error = fetch_into(release, &cache, Network::Allowed).unwrap_err();
        assert!(matches!(&error, FetchError::Occupied(path) if *path == dir), "{error}");
        std::fs::create_dir_all(release.lib_dir(&dir)).unwrap();
        assert!(verify::is_replaceable(&dir, release));
        std::fs::remove_dir_all(cache).unwrap();
    }

    #[test]
    fn a_damaged_release_is_named_when_downloads_are_forbidden() {
        let cache = std::env::temp_dir().join(format!("cudnn-fetch-offline\x1b[31m\n-{}", std::process::id()));
        let release = release("jit-cu12-9.19.0").unwrap();
        let message = || fetch_into(release, &cache, Network::Forbidden).unwrap_err().to_string();
        assert!(message().contains("is not in the cache"), "{}", message());
        let dist_info = cache.join(release.dir_name()).join("x.dist-info");
        std::fs::create_dir_all(&dist_info).unwrap();
        std::fs::write(dist_info.join("RECORD"), "").unwrap();
        assert!(message().contains("is damaged (") && message().contains("RECORD\" lists no files"), "{}", message());
        // Names from outside must not color a terminal or forge lines.
        assert!(!message().contains(char::is_control), "{:?}", message());
        let _ = std::fs::remove_dir_all(cache);
    }
}

//! The cache directory, and the temporary directories in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::FetchError;
use crate::release::{CACHE_VARIABLE, Release};
use cudnn_os::IS_WINDOWS;
use tempfile::TempDir;

/// Returns the cache directory for releases.
///
/// # Errors
/// [`FetchError::NoCacheDir`], [`FetchError::RelativeCacheDir`].
pub fn cache_dir() -> Result<PathBuf, FetchError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match variable(CACHE_VARIABLE) {
        Some(path) if path.is_absolute() => return Ok(path),
        Some(path) => return Err(FetchError::RelativeCacheDir(path)),
        None => {}
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    if IS_WINDOWS && let Some(local) = variable("LOCALAPPDATA").filter(absolute) {
        return Ok(local.join("cudnn-shim"));
    }
    let xdg = variable("XDG_CACHE_HOME").filter(absolute).map(|cache| cache.join("cudnn-shim"));
    xdg.or_else(|| variable("HOME").filter(absolute).map(|home| home.join(".cache/cudnn-shim")))
        .ok_or(FetchError::NoCacheDir)
}

impl Release {
    /// Returns whether the cache contains the release, which may be damaged.
    pub fn is_cached(&self) -> bool {
        cache_dir().is_ok_and(|cache| cache.join(self.dir_name()).is_dir())
    }
}

/// Creates a directory with a unique name in the cache, for a release with this directory name.
pub(crate) fn staging_dir(cache: &Path, dir_name: &str) -> Result<TempDir, FetchError> {
    let prefix = format!(".{dir_name}-");
    let failed = |error| FetchError::Cache(cache.to_owned(), error);
    std::fs::create_dir_all(cache).map_err(failed)?;
    remove_abandoned(cache, &prefix);
    tempfile::Builder::new().prefix(&prefix).tempdir_in(cache).map_err(failed)
}

/// Removes staging directories of killed processes after a day.
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

//! Real releases of cuDNN, from the cache or fetched into it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use cudnn_fetch::{FetchError, Network, RELEASES, Release};
use cudnn_loader::Version;

/// `CUDNN_TESTS_OFFLINE=skip` lets tests pass without running when they need a release that cannot be fetched. Each of
/// them prints NOT RUN and its name.
pub const OFFLINE_VARIABLE: &str = "CUDNN_TESTS_OFFLINE";

/// The time for which a failed download is remembered, so that not every test of a run waits for pip to fail again.
const REMEMBER_FAILURE: Duration = Duration::from_secs(10 * 60);

/// The unpacked wheel of a pinned release; `None` where it cannot be fetched and [`OFFLINE_VARIABLE`] is `skip`.
///
/// # Panics
/// When it cannot be fetched and the variable is not `skip`.
#[must_use]
pub fn release(id: &str) -> Option<PathBuf> {
    let may_skip = std::env::var_os(OFFLINE_VARIABLE).is_some_and(|value| value == "skip");
    let error = match fetch(id, may_skip) {
        Ok(dir) => return Some(dir),
        Err(error) => error,
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(
        may_skip,
        "{test} needs a release of cuDNN: {error}\nSet {OFFLINE_VARIABLE}=skip to skip the tests that need it."
    );
    not_run(test, &error.to_string());
    None
}

/// Fetches a release, unless a download failed a short while ago and tests may be skipped.
fn fetch(id: &str, may_skip: bool) -> Result<PathBuf, FetchError> {
    let release = cudnn_fetch::release(&for_this_target(id))?;
    // Beside the releases: all test programs of a run share the cache.
    let marker = cudnn_fetch::cache_dir()?.join(".tests-offline");
    let age = std::fs::metadata(&marker).and_then(|metadata| metadata.modified()).ok().and_then(|at| at.elapsed().ok());
    let failed_lately = age.is_some_and(|age| age < REMEMBER_FAILURE);
    let network = if may_skip && failed_lately { Network::Forbidden } else { Network::Allowed };
    let result = cudnn_fetch::fetch(release, network);
    match &result {
        Err(FetchError::Pip { .. }) if may_skip => drop(std::fs::write(&marker, "A test could not fetch a release.\n")),
        Ok(_) if network == Network::Allowed && age.is_some() => drop(std::fs::remove_file(&marker)),
        _ => {}
    }
    result
}

/// The directory with the libraries of a pinned release; `None` as for [`release`].
///
/// # Panics
/// See [`release`].
#[must_use]
pub fn lib_dir(id: &str) -> Option<PathBuf> {
    let dir = release(id)?;
    Some(cudnn_fetch::release(&for_this_target(id)).ok()?.lib_dir(&dir))
}

/// Returns the pinned releases of cuDNN for this machine with all libraries, the oldest of each CUDA major first.
pub fn full_releases() -> impl Iterator<Item = &'static Release> {
    RELEASES.iter().filter(|release| release.is_cudnn() && release.platform.is_none() && !release.is_jit())
}

/// Returns the version of cuDNN in a pinned release.
///
/// # Panics
/// When no release of cuDNN has this identifier.
#[must_use]
pub fn version(id: &str) -> Version {
    let [major, minor, patch] = cudnn_fetch::release(id).unwrap().cudnn_version().unwrap();
    Version::new(major, minor, patch)
}

/// The pin of a release for the target of the tests, if it has one of its own: an emulated test reads the cache of a
/// machine with another architecture.
fn for_this_target(id: &str) -> String {
    let own = format!("aarch64-{id}");
    if cfg!(target_arch = "aarch64") && cudnn_fetch::release(&own).is_ok() { own } else { id.to_owned() }
}

/// Prints that a test did not run, and why. It writes to stderr itself, because the harness hides what a passing test
/// prints through `eprintln!`.
pub fn not_run(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
}

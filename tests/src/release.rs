//! Provides real releases of cuDNN from the cache, and downloads missing ones.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use cudnn_fetch::{FetchError, Network, RELEASES, Release};
use cudnn_loader::Version;

/// If this is `skip`, tests that need an unavailable release pass without running, and print NOT RUN and their name.
pub const OFFLINE_VARIABLE: &str = "CUDNN_TESTS_OFFLINE";

/// The time that a failed download is cached, so that pip does not fail slowly in every test.
const REMEMBER_FAILURE: Duration = Duration::from_secs(10 * 60);

/// Returns the unpacked wheel of a pinned release, or `None` if it is unavailable and [`OFFLINE_VARIABLE`] is `skip`.
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

/// Fetches a release, unless a download failed recently and tests may be skipped.
fn fetch(id: &str, may_skip: bool) -> Result<PathBuf, FetchError> {
    let release = cudnn_fetch::release(&for_this_target(id))?;
    // The marker is stored next to the releases, because all test programs of a run share the cache.
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

/// Returns the directory with the libraries of a pinned release, or `None` like [`release`].
pub fn lib_dir(id: &str) -> Option<PathBuf> {
    let dir = release(id)?;
    Some(cudnn_fetch::release(&for_this_target(id)).ok()?.lib_dir(&dir))
}

/// Returns the pinned full releases of cuDNN for this machine, oldest first within a CUDA major version.
pub fn full_releases() -> impl Iterator<Item = &'static Release> {
    RELEASES.iter().filter(|release| release.is_cudnn() && release.platform.is_none() && !release.is_jit())
}

/// Returns the version of cuDNN in a pinned release.
pub fn version(id: &str) -> Version {
    let [major, minor, patch] = cudnn_fetch::release(id).unwrap().cudnn_version().unwrap();
    Version::new(major, minor, patch)
}

/// Returns the pin of a release for the target of the tests. It can differ, because an emulated test reads the cache of
/// a host with another architecture.
fn for_this_target(id: &str) -> String {
    let own = format!("aarch64-{id}");
    if cfg!(target_arch = "aarch64") && cudnn_fetch::release(&own).is_ok() { own } else { id.to_owned() }
}

/// Prints that a test did not run, and why, to stderr, because the harness hides `eprintln!` of passing tests.
pub fn not_run(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
}

//! Real releases of cuDNN, from the cache or fetched into it.

use std::io::Write;
use std::path::PathBuf;

/// Set to `skip`, this variable lets the tests that need a release that cannot be had pass unrun, each by name.
pub const OFFLINE_VARIABLE: &str = "CUDNN_TESTS_OFFLINE";

/// The unpacked wheel of a pinned release; `None` where it cannot be had and the tests were told to go on.
///
/// # Panics
/// When it cannot be had and they were not told.
#[must_use]
pub fn release(id: &str) -> Option<PathBuf> {
    let found = cudnn_fetch::release(id).and_then(|release| cudnn_fetch::fetch(release, cudnn_fetch::Network::Allowed));
    match found {
        Ok(dir) => Some(dir),
        Err(error) => {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test");
            if std::env::var_os(OFFLINE_VARIABLE).is_some_and(|value| value == "skip") {
                not_run(test, &error.to_string());
                return None;
            }
            panic!(
                "{test} could not run: {error}\nSet {OFFLINE_VARIABLE}=skip to go on without the tests that need it"
            );
        }
    }
}

/// The folder with the libraries of a pinned release; `None` as for [`release`].
///
/// # Panics
/// As [`release`].
#[must_use]
pub fn lib_dir(id: &str) -> Option<PathBuf> {
    let dir = release(id)?;
    Some(cudnn_fetch::release(id).ok()?.lib_dir(&dir))
}

/// Says that a test did not run, and why. Past the test harness, which keeps back what a test that passes prints.
pub fn not_run(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
}

//! Implements `cargo xtask newest`, which queries the package index for newer releases of cuDNN, and tests them.

use std::collections::BTreeSet;

use cudnn_fetch::{RELEASES, Release};

use crate::command::{Result, cargo, output, root, run};
use crate::pins::{self, Version};

/// The tests of release-specific behavior, without the measurements. They include the newest pin.
const MATRIX: [&str; 8] =
    ["releases", "layers", "loader", "abi", "drop_in_abi", "function_table", "identify", "report"];

/// Pins every newer release, as `release` does, and runs [`MATRIX`].
pub(crate) fn pin_and_test() -> Result<()> {
    let root = root()?;
    let mut newer = BTreeSet::new();
    for package in packages() {
        let pinned = newest_pin(package)?;
        let published = published(package)?;
        let latest = published.iter().max().ok_or_else(|| format!("{package} has no version"))?;
        println!("{package}: {} is pinned, {} is the newest", pinned.text(), latest.text());
        newer.extend(published.into_iter().filter(|version| *version > pinned));
    }
    if newer.is_empty() {
        println!("No release is newer than the pinned ones. Testing the newest one.");
    }
    // A release that needs manual changes is still tested, and the command fails at the end.
    let mut failures = Vec::new();
    for version in newer.iter().map(Version::text) {
        // A new process, because the list of pins is compiled into xtask.
        if run(cargo(&root).args(["xtask", "release", &version])).is_err() {
            failures.push(format!("{version} needs changes by hand"));
        }
    }
    let tests = MATRIX.iter().flat_map(|test| ["--test", test]);
    let mut test = cargo(&root);
    test.args(["test", "--package", "cudnn-tests", "--no-fail-fast"]).args(tests);
    if run(test.args(["--", "--include-ignored", "--skip", "the_cost_of_a_step"])).is_err() {
        failures.push("tests with the newest release failed".into());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Returns the packages with lines of pins.
pub(crate) fn packages() -> BTreeSet<&'static str> {
    pins::newest_of_lines(RELEASES).iter().map(|release| release.package).collect()
}

/// Returns the newest pinned version of a package.
fn newest_pin(package: &str) -> Result<Version> {
    let pinned = RELEASES.iter().filter(|release: &&Release| release.package == package);
    let versions: Result<Vec<Version>> = pinned.map(|release| Version::parse(release.version)).collect();
    versions?.into_iter().max().ok_or_else(|| format!("{package} is not pinned").into())
}

/// Queries pip for the versions of a package that this machine can install.
pub(crate) fn published(package: &str) -> Result<Vec<Version>> {
    let mut pip = cudnn_fetch::pip(&root()?);
    pip.args(["--disable-pip-version-check", "--no-input", "index", "versions", package]);
    let text = output(&mut pip)?;
    let versions = versions(&text);
    if versions.is_empty() { Err(format!("pip listed no version of {package}:\n{text}").into()) } else { Ok(versions) }
}

/// Reads the versions of cuDNN 9 in the output of `pip index versions`.
fn versions(text: &str) -> Vec<Version> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Available versions:"));
    let listed = line.unwrap_or_default().split(',').map(str::trim);
    listed.filter(|version| version.starts_with("9.")).filter_map(|version| Version::parse(version).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_output_of_pip() {
        let text = "WARNING: pip index is currently an experimental command.\nnvidia-cudnn-cu13 (9.28.1.4)\n\
                    Available versions: 9.28.1.4, 9.28.0.42, 9.9.0.52, 10.0.0.1, 9.29rc1\n  INSTALLED: 9.19.0.56\n";
        let texts = |versions: Vec<Version>| versions.iter().map(Version::text).collect::<Vec<_>>();
        assert_eq!(texts(versions(text)), ["9.28.1.4", "9.28.0.42", "9.9.0.52"]);
        assert_eq!(versions(text).into_iter().max().unwrap().text(), "9.28.1.4");
        assert_eq!(versions("no such package\n"), []);
    }
}

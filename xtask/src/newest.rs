//! `cargo xtask newest`: looks for newer releases of cuDNN in the package index and NVIDIA's list, and tests the
//! releases of the index.

use std::collections::BTreeSet;
use std::process::Command;

use cudnn_fetch::{RELEASES, Release};

use crate::command::{Result, cargo, output, root, run};
use crate::pins::{self, Version};

/// The tests of release-specific behavior, which include the newest pin.
const MATRIX: [&str; 8] =
    ["releases", "layers", "loader", "abi", "drop_in_abi", "function_table", "identify", "report"];

/// NVIDIA's list of releases with archives, possibly without wheels.
const NVIDIA: &str = "https://developer.download.nvidia.com/compute/cudnn/redist/";

/// Pins every newer release like `release`, and runs [`MATRIX`].
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
    match listed_by_nvidia() {
        Ok(listed) => println!("{}", compared(&listed, &newer, &newest_pin("nvidia-cudnn-cu13")?)),
        Err(reason) => println!("NVIDIA's list of releases was not read: {reason}"),
    }
    if newer.is_empty() {
        println!("No release is newer than the pinned ones. Testing the newest one.");
    }
    // A release that needs manual changes is tested, too.
    let mut failures = Vec::new();
    for version in newer.iter().map(Version::text) {
        // The list of pins is compiled into xtask, so use a new process.
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

fn listed_by_nvidia() -> Result<Vec<Version>> {
    let mut curl = Command::new("curl");
    curl.args("--fail --silent --show-error --location --max-time 60 --max-filesize 10M".split(' ')).arg(NVIDIA);
    let listed = archives(&output(&mut curl)?);
    if listed.is_empty() { Err(format!("{NVIDIA} names no release of cuDNN 9").into()) } else { Ok(listed) }
}

/// Returns the releases of cuDNN 9 on a page with names such as `redistrib_9.28.1.json`.
fn archives(page: &str) -> Vec<Version> {
    let names = page.split("redistrib_").skip(1).filter_map(|rest| rest.split_once(".json"));
    let listed = names.map(|(version, _)| version).filter(|version| version.starts_with("9."));
    listed.filter_map(|version| Version::parse(version).ok()).collect()
}

/// Describes the releases that are newer than the newest pin and missing in the package index.
fn compared(listed: &[Version], indexed: &BTreeSet<Version>, pinned: &Version) -> String {
    let indexed: BTreeSet<String> = indexed.iter().chain([pinned]).map(Version::release).collect();
    let is_only_listed = |version: &&Version| *version > pinned && !indexed.contains(&version.release());
    let only: BTreeSet<String> = listed.iter().filter(is_only_listed).map(Version::release).collect();
    let latest = listed.iter().max().map_or("nothing".into(), Version::release);
    match only.into_iter().collect::<Vec<_>>().join(", ") {
        only if only.is_empty() => format!("NVIDIA's list: {latest} is the newest"),
        only => format!("NVIDIA's list: {latest} is the newest, and the package index lacks {only}"),
    }
}

pub(crate) fn packages() -> BTreeSet<&'static str> {
    pins::newest_of_lines(RELEASES).iter().map(|release| release.package).collect()
}

fn newest_pin(package: &str) -> Result<Version> {
    let pinned = RELEASES.iter().filter(|release: &&Release| release.package == package);
    let versions: Result<Vec<Version>> = pinned.map(|release| Version::parse(release.version)).collect();
    versions?.into_iter().max().ok_or_else(|| format!("{package} is not pinned").into())
}

/// Returns the versions of a package that this machine can install.
pub(crate) fn published(package: &str) -> Result<Vec<Version>> {
    let mut pip = cudnn_fetch::pip(&root()?);
    pip.args(["--disable-pip-version-check", "--no-input", "index", "versions", package]);
    let text = output(&mut pip)?;
    let versions = versions(&text);
    if versions.is_empty() { Err(format!("pip listed no version of {package}:\n{text}").into()) } else { Ok(versions) }
}

/// Parses the versions of cuDNN 9 in the output of `pip index versions`.
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

    #[test]
    fn releases_in_the_list_of_nvidia_that_the_index_lacks_are_named() {
        let version = |text: &str| Version::parse(text).unwrap();
        let row = |name: &str| format!("<a href=\"{name}\">{name}</a> 4.0KB 2026-11-02 10:00\n");
        let names =
            ["cudnn/", "redistrib_8.9.7.json", "redistrib_9.28.1.json", "redistrib_9.29.0.json", "redistrib_9.json"];
        let listed = archives(&names.map(row).concat());
        assert_eq!(listed, ["9.28.1", "9.28.1", "9.29.0", "9.29.0"].map(version));
        let pinned = version("9.28.1.4");
        for (indexed, expected) in [
            (vec![], "NVIDIA's list: 9.29.0 is the newest, and the package index lacks 9.29.0"),
            (vec![version("9.29.0.12")], "NVIDIA's list: 9.29.0 is the newest"),
        ] {
            assert_eq!(compared(&listed, &indexed.into_iter().collect(), &pinned), expected);
        }
        assert_eq!(archives("<html>moved</html>"), []);
    }

    #[test]
    fn the_newest_pin_of_a_package_is_found() {
        let newest = newest_pin("nvidia-cudnn-cu12").unwrap();
        assert!(newest >= Version::parse("9.28.0.42").unwrap());
        assert!(newest_pin("nvidia-cudnn-cu99").is_err());
    }
}

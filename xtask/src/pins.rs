//! The list of pinned wheels, and the file that contains it.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::command::Result;
use cudnn_fetch::Release;

pub(crate) const FILE: &str = "doctor/cudnn-fetch/src/generated/releases.rs";

/// A cuDNN release of three or four numbers, such as `9.28.0` or `9.28.0.42`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(Vec<u32>);

impl Version {
    pub(crate) fn parse(text: &str) -> Result<Version> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| matches!(numbers.len(), 3 | 4));
        numbers
            .map(Version)
            .ok_or_else(|| format!("{text:?} is not a cuDNN version such as 9.29.0 or 9.29.0.42").into())
    }

    /// Returns the version without the build number, such as `9.28.0`.
    pub(crate) fn release(&self) -> String {
        let numbers: Vec<String> = self.0.iter().take(3).map(ToString::to_string).collect();
        numbers.join(".")
    }

    pub(crate) fn text(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        numbers.join(".")
    }

    /// Returns pip's specifier for this build, or for any build of this release.
    pub(crate) fn specifier(&self) -> String {
        format!("=={}{}", self.text(), if self.0.len() == 3 { ".*" } else { "" })
    }
}

/// The lines that stay at a small old release for the demo and the quick tests.
const HELD: [&str; 2] = ["jit-cu12", "aarch64-jit-cu12"];

/// Returns the newest pin of every line of cuDNN's wheels (`cu12`, `jit-cu13`, ...), except for the lines in [`HELD`].
pub(crate) fn newest_of_lines(releases: &'static [Release]) -> Vec<&'static Release> {
    let mut newest: Vec<&'static Release> = Vec::new();
    for release in releases.iter().filter(|release| release.line().is_some_and(|line| !HELD.contains(&line))) {
        match newest.iter_mut().find(|other| other.line() == release.line()) {
            Some(other) if other.cudnn_version() < release.cudnn_version() => *other = release,
            Some(_) => {}
            None => newest.push(release),
        }
    }
    newest
}

/// Returns the newest pin for this machine, as the source of headers for the bindings. All CUDA major versions have the
/// same headers, so the smaller wheel is used.
pub(crate) fn newest(releases: &'static [Release]) -> Result<&'static Release> {
    let here = releases.iter().filter(|release| release.is_cudnn() && release.platform.is_none());
    here.max_by_key(|release| (release.cudnn_version(), Reverse(release.megabytes)))
        .ok_or_else(|| format!("{FILE} has no release of cuDNN").into())
}

/// Returns the list with a pin added to its line, or replacing the pin with the same identifier.
pub(crate) fn with(releases: &[Release], added: Release) -> Vec<Release> {
    let mut list = releases.to_vec();
    if let Some(same) = list.iter_mut().find(|release| release.id == added.id) {
        *same = added;
        return list;
    }
    let is_before =
        |release: &Release| release.line() == added.line() && release.cudnn_version() < added.cudnn_version();
    let after = list.iter().rposition(is_before).map(|last| last + 1);
    let first_of_line = || list.iter().position(|release| release.line() == added.line());
    list.insert(after.or_else(first_of_line).unwrap_or(list.len()), added);
    list
}

/// Returns the text of [`FILE`], as rustfmt formats it.
pub(crate) fn source(releases: &[Release]) -> String {
    let mut text = String::from(
        "// Written by `cargo xtask release`, which keeps the entries and no comments.\n\n/// The pinned wheels. The JIT wheels \
         are small, for quick tests and the demo; the others are for CI.\npub const RELEASES: &[Release] = &[\n",
    );
    for Release { id, package, version, sha256, platform, megabytes } in releases {
        let hashes = match sha256 {
            [hash] => format!("[{hash:?}]"),
            hashes => format!("{hashes:#?}").replace('\n', "\n        "),
        };
        let _ = write!(
            text,
            "    Release {{\n        id: {id:?},\n        package: {package:?},\n        version: {version:?},\n        \
             sha256: &{hashes},\n        platform: {platform:?},\n        megabytes: {megabytes},\n    }},\n"
        );
    }
    text.push_str("];\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_fetch::RELEASES;

    #[test]
    fn the_checked_in_list_is_up_to_date() {
        assert_eq!(source(RELEASES), include_str!("../../doctor/cudnn-fetch/src/generated/releases.rs"));
    }

    #[test]
    fn a_pin_is_added_in_the_order_of_its_line_or_replaces_an_existing_one() {
        let newest = cudnn_fetch::release("cu12").unwrap();
        let position = |list: &[Release], id: &str| list.iter().position(|release| release.id == id).unwrap();
        let added = Release { id: "cu12-9.99.0", version: "9.99.0.1", ..*newest };
        let list = with(RELEASES, added);
        assert_eq!(position(&list, added.id), position(&list, newest.id) + 1);
        assert_eq!(list.len(), RELEASES.len() + 1);
        let older = Release { id: "cu12-8.99.0", version: "8.99.0.1", ..*newest };
        let first = RELEASES.iter().position(|release| release.line() == Some("cu12")).unwrap();
        assert_eq!(position(&with(RELEASES, older), older.id), first);
        let list = with(&list, Release { megabytes: 7, ..added });
        assert_eq!((list.len(), list[position(&list, added.id)].megabytes), (RELEASES.len() + 1, 7));
    }

    #[test]
    fn bindings_come_from_the_newest_release_of_any_cuda_major() {
        let cu12 = cudnn_fetch::release("cu12").unwrap();
        let added = Release { id: "cu13-9.99.0", version: "9.99.0.1", ..*cudnn_fetch::release("cu13").unwrap() };
        let list = with(RELEASES, added).leak();
        assert_eq!(newest(list).unwrap().id, added.id);
        let smaller = Release { id: "cu12-9.99.0", version: "9.99.0.1", megabytes: 1, ..*cu12 };
        assert_eq!(newest(with(list, smaller).leak()).unwrap().id, smaller.id);
    }

    #[test]
    fn a_version_of_three_numbers_is_any_build() {
        assert_eq!(Version::parse("9.29.0").unwrap().specifier(), "==9.29.0.*");
        assert_eq!(Version::parse("9.29.0.42").unwrap().specifier(), "==9.29.0.42");
        assert_eq!(Version::parse("9.29.0.42").unwrap().release(), "9.29.0");
        for text in ["9.29", "9.29.x", "", "9.29.0.42.1"] {
            assert!(Version::parse(text).is_err(), "{text}");
        }
    }
}

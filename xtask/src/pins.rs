//! The list of pinned wheels as data: its lines of wheels, the newest of each, and the file that contains the list.

use std::fmt::Write;

use cudnn_fetch::Release;

use crate::error::Result;

/// The file with the list, in the workspace.
pub(crate) const FILE: &str = "cudnn-fetch/src/generated/releases.rs";

/// A cuDNN release of three numbers, `9.28.0`, or four, `9.28.0.42`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(Vec<u32>);

impl Version {
    pub(crate) fn parse(text: &str) -> Result<Version> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| matches!(numbers.len(), 3 | 4));
        numbers.map(Version).ok_or_else(|| format!("{text:?} is no cuDNN version, as in 9.29.0 or 9.29.0.42").into())
    }

    /// `9.28.0`, without the number of the build.
    pub(crate) fn release(&self) -> String {
        let numbers: Vec<String> = self.0.iter().take(3).map(ToString::to_string).collect();
        numbers.join(".")
    }

    /// pip's version specifier: of this build, or of any build of this release.
    pub(crate) fn specifier(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        format!("=={}{}", numbers.join("."), if numbers.len() == 3 { ".*" } else { "" })
    }
}

/// The pins of one package for one platform, which differ in the release only: `cu12-9.0.0`, `cu12-9.28.0`.
#[derive(Debug)]
pub(crate) struct Line {
    /// The prefix of the identifiers: `cu12-`.
    pub(crate) prefix: String,
    /// The newest pin.
    pub(crate) newest: &'static Release,
}

/// The lines of cuDNN's wheels, in the order of the list.
pub(crate) fn lines(releases: &'static [Release]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for release in releases {
        let Some((prefix, version)) = split(release) else { continue };
        match lines.iter_mut().find(|line| line.prefix == prefix) {
            Some(line) if split(line.newest).is_some_and(|(_, newest)| newest < version) => line.newest = release,
            Some(_) => {}
            None => lines.push(Line { prefix, newest: release }),
        }
    }
    lines
}

/// The release of the bindings: the newest of the line `cu12-`.
pub(crate) fn newest(releases: &'static [Release]) -> Result<&'static Release> {
    let line = lines(releases).into_iter().find(|line| line.prefix == "cu12-");
    line.map(|line| line.newest).ok_or_else(|| format!("{FILE} has no release cu12-*").into())
}

/// The prefix of a cuDNN release's identifier, and its version. `None` for other packages.
fn split(release: &Release) -> Option<(String, Version)> {
    let version = Version::parse(release.version).ok().filter(|_| release.is_cudnn())?;
    Some((release.id.strip_suffix(&version.release())?.to_owned(), version))
}

/// The list with a pin added behind the last one of its line, or in place of the one with the same identifier.
pub(crate) fn with(releases: &[Release], added: Release) -> Vec<Release> {
    let mut list = releases.to_vec();
    if let Some(same) = list.iter_mut().find(|release| release.id == added.id) {
        *same = added;
        return list;
    }
    let prefix = split(&added).map(|(prefix, _)| prefix);
    let last = list.iter().rposition(|release| split(release).map(|(prefix, _)| prefix) == prefix);
    list.insert(last.map_or(list.len(), |last| last + 1), added);
    list
}

/// The text of [`FILE`], as rustfmt formats it.
pub(crate) fn source(releases: &[Release]) -> String {
    let mut text = String::from(
        "// Written by `cargo xtask release`, which keeps the entries and no comments.\n\n/// The pinned wheels. The JIT wheels \
         are small, for quick tests and the demo; the others are for CI.\npub const RELEASES: &[Release] = &[\n",
    );
    for Release { id, package, version, sha256, platform, megabytes } in releases {
        let _ = write!(
            text,
            "    Release {{\n        id: {id:?},\n        package: {package:?},\n        version: {version:?},\n"
        );
        match sha256 {
            [hash] => {
                let _ = writeln!(text, "        sha256: &[{hash:?}],");
            }
            hashes => {
                text.push_str("        sha256: &[\n");
                for hash in *hashes {
                    let _ = writeln!(text, "            {hash:?},");
                }
                text.push_str("        ],\n");
            }
        }
        let _ = writeln!(text, "        platform: {platform:?},\n        megabytes: {megabytes},\n    }},");
    }
    text.push_str("];\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_fetch::RELEASES;

    #[test]
    fn the_checked_in_list_is_what_would_be_written() {
        assert_eq!(source(RELEASES), include_str!("../../cudnn-fetch/src/generated/releases.rs"));
    }

    #[test]
    fn a_pin_is_added_behind_its_line_or_replaces_its_namesake() {
        let newest = newest(RELEASES).unwrap();
        let added = Release { id: "cu12-9.99.0", version: "9.99.0.1", ..*newest };
        let list = with(RELEASES, added);
        let position = list.iter().position(|release| release.id == added.id).unwrap();
        assert_eq!(list[position - 1].id, newest.id);
        assert_eq!(list.len(), RELEASES.len() + 1);
        let list = with(&list, Release { megabytes: 7, ..added });
        assert_eq!((list.len(), list[position].megabytes), (RELEASES.len() + 1, 7));
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

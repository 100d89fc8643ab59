//! Provides the cuDNN and CUDA versions of framework releases for packages that do not record them. Each row in
//! `data/frameworks.json` has a source and a date; `cargo xtask frameworks` updates the file.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use cudnn_probe::Version;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The parsed file. A test checks that it is valid; if parsing failed, there would be no facts.
static DATA: LazyLock<Data> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/frameworks.json")).unwrap_or_default());

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Data {
    newest: Vec<Newest>,
    facts: Vec<Fact>,
}

/// The newest release of a package that the facts cover.
#[derive(Deserialize)]
struct Newest {
    package: &'static str,
    version: &'static str,
}

/// The build targets of a package's releases, from one release up to the next fact about that package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Fact {
    /// The normalized name of the package.
    pub package: &'static str,
    /// The first release that the fact applies to.
    pub since: &'static str,
    /// The cuDNN version that the package was built for, or the oldest that it accepts. `None` if it works without
    /// cuDNN.
    #[serde(deserialize_with = "cudnn")]
    pub cudnn: Option<Version>,
    /// The CUDA release: the major version, and the minor version if it matters.
    #[serde(deserialize_with = "cuda")]
    pub cuda: Option<(u32, Option<u32>)>,
    /// The source of the fact.
    #[serde(flatten)]
    pub source: Citation,
}

/// The source and the date of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Citation {
    /// The type of evidence.
    pub evidence: Evidence,
    /// The URL of the document or of the package's page.
    pub url: &'static str,
    /// The date: `2026-11-22`.
    pub date: &'static str,
}

/// The type of evidence for a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Evidence {
    /// The metadata of releases in the package index (`Requires-Dist`).
    Metadata,
    /// Files in the wheels of releases: a library that they contain, or the dependencies of their libraries.
    Wheel,
    /// A document from the project or from NVIDIA.
    Document,
}

/// Prints a single word, such as `metadata`.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Parses `"9.10.2"` or `null`.
fn cudnn<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Version>, D::Error> {
    let text: Option<&str> = Deserialize::deserialize(from)?;
    text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}

/// Parses `"12.8"`, `"12"` or `null`.
fn cuda<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(u32, Option<u32>)>, D::Error> {
    let number = |text: &str| text.parse().map_err(D::Error::custom);
    match Option::<&str>::deserialize(from)?.map(|text| text.split_once('.').ok_or(text)) {
        Some(Ok((major, minor))) => Ok(Some((number(major)?, Some(number(minor)?)))),
        Some(Err(major)) => Ok(Some((number(major)?, None))),
        None => Ok(None),
    }
}

/// Returns all facts, grouped by package and starting with the oldest release.
pub fn all() -> &'static [Fact] {
    &DATA.facts
}

/// Returns the fact about a release, and whether the release is newer than all known releases.
pub(crate) fn about(package: &str, version: &str) -> Option<(&'static Fact, bool)> {
    let version = without_local(version)?;
    let is_since = |fact: &&Fact| fact.package == package && parse(fact.since).is_some_and(|since| since <= version);
    let fact = all().iter().rfind(is_since)?;
    let newest = DATA.newest.iter().find(|known| known.package == package).and_then(|known| parse(known.version));
    Some((fact, newest.is_none_or(|newest| version > newest)))
}

fn parse(version: &str) -> Option<pep440_rs::Version> {
    pep440_rs::Version::from_str(version).ok()
}

/// Returns whether a package version is at least `since`.
pub fn is_since(version: &str, since: &str) -> bool {
    without_local(version).is_some_and(|version| parse(since).is_some_and(|since| version >= since))
}

/// Parses a version without the local part, such as `+cu128`.
fn without_local(version: &str) -> Option<pep440_rs::Version> {
    parse(version.split('+').next()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_complete_and_in_order() {
        let data: Data = serde_json::from_str(include_str!("../../data/frameworks.json")).unwrap();
        assert!(!data.newest.is_empty());
        assert_eq!(data.facts, all());
        for pair in data.facts.windows(2) {
            let [first, second] = pair else { continue };
            assert!(first.package <= second.package, "{first:?} {second:?}");
            if first.package == second.package {
                assert!(parse(first.since) < parse(second.since), "{first:?} {second:?}");
            }
        }
        let is_source = |source: &Citation| source.url.starts_with("https://") && is_day(source.date);
        for fact in &data.facts {
            let newest = data.newest.iter().find(|newest| newest.package == fact.package);
            assert!(newest.is_some_and(|newest| parse(newest.version) >= parse(fact.since)), "{fact:?}");
            assert!(is_source(&fact.source), "{fact:?}");
            // Metadata and wheels must come from the same package.
            let is_of_index = fact.source.url.starts_with(&format!("https://pypi.org/project/{}/", fact.package));
            assert_eq!(is_of_index, fact.source.evidence != Evidence::Document, "{fact:?}");
        }
        let has_fact = |newest: &Newest| data.facts.iter().any(|fact| fact.package == newest.package);
        assert!(data.newest.iter().all(has_fact));
    }

    /// Returns whether the text has the form `2026-11-22`.
    fn is_day(text: &str) -> bool {
        let numbers: Vec<u32> = text.split('-').filter_map(|number| number.parse().ok()).collect();
        text.len() == 10 && matches!(numbers[..], [year, 1..=12, 1..=31] if year >= 2026)
    }

    #[test]
    fn a_fact_applies_until_the_next_fact() {
        let cudnn = |fact: &Fact| fact.cudnn.map(|version| (version.major, version.minor, version.patch));
        let cudnn = |package, version| about(package, version).map(|(fact, is_newer)| (cudnn(fact), is_newer));
        for (package, version, expected) in [
            ("ctranslate2", "4.4.0", Some((Some((8, 9, 7)), false))),
            ("ctranslate2", "4.6.2", Some((Some((9, 1, 0)), false))),
            ("ctranslate2", "4.8.5", Some((None, false))),
            ("ctranslate2", "4.9.0", Some((None, true))),
            ("ctranslate2", "3.24.0", None),
            ("torch", "2.10.0+cu128", Some((Some((9, 10, 2)), false))),
            ("torch", "2.16.0.dev20261122+cu132", Some((Some((9, 26, 0)), true))),
            ("torch", "not a version", None),
            ("none", "1.0", None),
        ] {
            assert_eq!(cudnn(package, version), expected, "{package} {version}");
        }
    }
}

//! The cuDNN and CUDA versions of framework releases that do not record them. Each row in `data/frameworks.json` has a
//! source and a date. `cargo xtask frameworks` updates the file.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use cudnn_probe::Version;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The parsed file. A test checks that it is valid.
static DATA: LazyLock<Data> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/frameworks.json")).unwrap_or_default());

#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Data {
    newest: Vec<Newest>,
    facts: Vec<Fact>,
}

#[derive(Deserialize)]
struct Newest {
    package: &'static str,
    version: &'static str,
}

/// The build targets of a package's releases, from one release up to the next fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Fact {
    /// The normalized name of the package.
    pub package: &'static str,
    /// The first release that the fact applies to.
    pub since: &'static str,
    /// The cuDNN that the package was built for, or the oldest that it accepts. `None` if it works without cuDNN.
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
    pub evidence: EvidenceKind,
    /// The URL of the document or of the package's page.
    pub url: &'static str,
    /// The date: `2026-11-22`.
    pub date: &'static str,
}

/// The type of evidence for a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EvidenceKind {
    /// The metadata of releases in the package index (`Requires-Dist`).
    Metadata,
    /// Files in the wheels of releases: a library that they contain, or the dependencies of their libraries.
    Wheel,
    /// A document from the project or from NVIDIA.
    Document,
}

/// Prints one word, such as `metadata`.
impl fmt::Display for EvidenceKind {
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

/// Returns the fact about a release, and whether the release is newer than all known ones.
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

fn without_local(version: &str) -> Option<pep440_rs::Version> {
    parse(version.split('+').next()?)
}

#[cfg(test)]
mod tests;

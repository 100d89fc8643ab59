//! Reads known issues of cuDNN releases from the built-in file with facts or from a newer one.

mod stored;

use std::collections::BTreeSet;

use cudnn_frameworks::{allows, allows_from};
use cudnn_os::escape::is_unsafe;
use cudnn_probe::release_facts::RELEASE_FACTS;
use cudnn_probe::{Capability, Release, Version};
use serde::Deserialize;

use crate::check::machine::Gpu;

pub use stored::{FILE_NAME, InUse, MAX_LEN, in_use, stored_file};

const FORMAT: u32 = 1;
const MAX_TEXT: usize = 400;

/// A file with facts about releases.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseFacts {
    #[serde(rename = "facts")]
    _format: u32,
    /// The version of the facts, which increases with updates.
    pub version: u32,
    /// The day when the facts were written: `2026-11-29`.
    pub date: String,
    /// The known issues, in the order of reports.
    pub known_issues: Vec<KnownIssue>,
    errata: Errata,
}

/// An issue that some releases are known to have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownIssue {
    /// The name, which is unique.
    pub name: String,
    /// The affected releases, in ascending order.
    pub releases: Vec<ReleaseRange>,
    /// The affected GPUs, or `None` if all are affected.
    #[serde(default)]
    pub compute_capability: Option<CapabilityRange>,
    /// The minimum number of GPUs of an affected machine.
    #[serde(default)]
    pub min_gpus: Option<usize>,
    /// The affected releases of cuBLAS, such as `>=12.9`, or `None` if all are affected.
    #[serde(default)]
    pub cublas: Option<String>,
    /// The operation, such as `attention`.
    pub operation: String,
    /// The effect on programs, as a sentence.
    pub effect: String,
    /// The condition under which a program is affected, as a clause.
    #[serde(default)]
    pub condition: Option<String>,
    /// A public page about the issue.
    pub source: String,
    /// The rule of the layer `errata` that blocks the affected plans.
    #[serde(default)]
    pub erratum: Option<String>,
}

/// Affected releases.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRange {
    /// The first affected release.
    pub from: Release,
    /// The first release with a fix.
    #[serde(default)]
    pub before: Option<Release>,
    /// The last release that was observed to be affected, if no release is known to fix it.
    #[serde(default)]
    pub through: Option<Release>,
}

/// Affected GPUs: from the first compute capability to before the second.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapabilityRange {
    /// The lowest affected compute capability.
    pub from: Capability,
    /// The first higher, unaffected compute capability.
    #[serde(default)]
    pub before: Option<Capability>,
}

/// The rules of the layer `errata`, which only the layer understands.
#[derive(Clone, Debug, Default, Deserialize)]
struct Errata {
    rules: Vec<NamedRule>,
}

#[derive(Clone, Debug, Deserialize)]
struct NamedRule {
    name: String,
}

impl ReleaseFacts {
    /// Returns the facts that this build contains.
    pub fn built_in() -> Self {
        ReleaseFacts::parse(RELEASE_FACTS).unwrap_or_default()
    }

    /// Parses a file with facts.
    ///
    /// # Errors
    /// Returns the reason, with the line of a syntax error or the name of an invalid issue.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct FactsFormat {
            facts: u32,
        }
        let format: FactsFormat = serde_json::from_str(text).map_err(|error| format!("these are no facts: {error}"))?;
        if format.facts != FORMAT {
            return Err(format!("format {} is not supported, only {FORMAT}", format.facts));
        }
        let facts: ReleaseFacts = serde_json::from_str(text).map_err(|error| error.to_string())?;
        facts.check()?;
        Ok(facts)
    }

    /// Checks values that the types of the fields allow but that are invalid.
    fn check(&self) -> Result<(), String> {
        if !is_date(&self.date) {
            return Err(format!("{:?} is not a date, such as \"2026-11-29\"", self.date));
        }
        if self.known_issues.is_empty() {
            return Err("it contains no known issues".to_owned());
        }
        let rules: BTreeSet<&str> = self.errata.rules.iter().map(|rule| rule.name.as_str()).collect();
        let mut names = BTreeSet::new();
        for issue in &self.known_issues {
            let reason = match issue.check() {
                Err(reason) => reason,
                Ok(()) if !names.insert(&issue.name) => "another issue has this name".to_owned(),
                Ok(()) => match issue.erratum.as_deref().filter(|rule| !rules.contains(rule)) {
                    Some(rule) => format!("the file contains no rule {rule:?}"),
                    None => continue,
                },
            };
            return Err(format!("issue {:?}: {reason}", issue.name));
        }
        Ok(())
    }
}

impl KnownIssue {
    /// Returns the range that contains a release, if the release is affected.
    pub fn affects(&self, version: Version) -> Option<&ReleaseRange> {
        self.releases.iter().find(|range| range.contains(Release(version)))
    }

    /// Returns whether it concerns a machine with these GPUs and this release of cuBLAS. An unknown release of cuBLAS
    /// counts as affected.
    pub fn concerns(&self, gpus: &[Gpu], cublas: impl FnOnce() -> Option<String>) -> bool {
        let range = self.compute_capability.as_ref();
        let is_allowed = |affected: &String| cublas().is_none_or(|found| allows(&format!("cublas{affected}"), &found));
        range.is_none_or(|range| gpus.iter().any(|gpu| range.contains(Capability::from_tenths(gpu.compute_capability))))
            && self.min_gpus.is_none_or(|minimum| gpus.len() >= minimum)
            && self.cublas.as_ref().is_none_or(is_allowed)
    }

    fn check(&self) -> Result<(), String> {
        let texts = [&self.name, &self.operation, &self.effect, &self.source];
        let texts = texts.into_iter().chain(&self.condition).chain(&self.cublas).chain(&self.erratum);
        if texts.into_iter().any(|text| text.is_empty() || text.len() > MAX_TEXT || text.chars().any(is_unsafe)) {
            return Err(format!("a text is empty, has more than {MAX_TEXT} bytes, or contains a control character"));
        }
        if !self.source.starts_with("https://") {
            return Err("the source must be an address that starts with https://".to_owned());
        }
        let is_ascending = self.releases.is_sorted_by(|one, next| one.end().is_some_and(|end| end <= next.from));
        if self.cublas.as_ref().is_some_and(|releases| allows_from(&format!("cublas{releases}"), "0").is_none()) {
            return Err("the releases of cuBLAS must be versions such as `>=12.9`".to_owned());
        }
        if self.releases.is_empty() || !is_ascending || self.releases.iter().any(ReleaseRange::is_invalid) {
            return Err("the releases must be ascending ranges with `before` or `through`".to_owned());
        }
        if self.compute_capability.as_ref().is_some_and(|range| range.before.is_some_and(|end| end <= range.from)) {
            return Err("the range of compute capabilities ends before it begins".to_owned());
        }
        Ok(())
    }
}

impl ReleaseRange {
    fn contains(&self, release: Release) -> bool {
        self.from <= release
            && self.before.is_none_or(|end| release < end)
            && self.through.is_none_or(|last| release <= last)
    }

    fn end(&self) -> Option<Release> {
        self.before.or(self.through)
    }

    fn is_invalid(&self) -> bool {
        match (self.before, self.through) {
            (Some(before), None) => before <= self.from,
            (None, Some(through)) => through < self.from,
            (Some(_), Some(_)) | (None, None) => true,
        }
    }
}

impl std::fmt::Display for ReleaseRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Release(first) = self.from;
        match (self.before, self.through) {
            (Some(Release(fixed)), _) => write!(f, "{first} through releases before {fixed}"),
            (None, Some(Release(last))) if last == first => write!(f, "{last}, and perhaps later releases"),
            (None, Some(Release(last))) => write!(f, "{first} through {last}, and perhaps later releases"),
            (None, None) => write!(f, "releases from {first} on"),
        }
    }
}

impl CapabilityRange {
    fn contains(&self, capability: Capability) -> bool {
        self.from <= capability && self.before.is_none_or(|end| capability < end)
    }
}

impl std::fmt::Display for CapabilityRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.before {
            None => write!(f, "compute capability {} or higher", self.from),
            Some(end) if end.tenths() == self.from.tenths() + 1 => write!(f, "compute capability {}", self.from),
            Some(end) => write!(f, "compute capability {} to before {end}", self.from),
        }
    }
}

fn is_date(text: &str) -> bool {
    let digits = |text: &str, len: usize| text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    // Text order equals number order for the same number of digits.
    let is_in_year = ("01"..="12").contains(month) && ("01"..="31").contains(day);
    is_in_year && digits(year, 4) && digits(month, 2) && digits(day, 2)
}

#[cfg(test)]
mod tests;

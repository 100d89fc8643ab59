//! Releases and compute capabilities as text in JSON files.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::version::Version;

/// A release of cuDNN in a file, written as `9.10.2`. `9.10` is read as `9.10.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release(pub Version);

impl Release {
    /// Returns the release with this number, as returned by `cudnnGetVersion`.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Release(Version::from_number(number as usize))
    }
}

impl TryFrom<String> for Release {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse() {
            Ok(Version { major, minor, patch }) if major.max(minor).max(patch) < 100 => {
                Ok(Release(Version::new(major, minor, patch)))
            }
            _ => Err(format!("{text:?} is not a release of cuDNN, such as \"9.10.2\"")),
        }
    }
}

impl From<Release> for String {
    fn from(release: Release) -> String {
        release.to_string()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A compute capability in tenths, written as `9.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Capability(u32);

impl Capability {
    /// Returns the capability with this number of tenths: 90 for `9.0`.
    #[must_use]
    pub fn from_tenths(tenths: u32) -> Self {
        Capability(tenths)
    }

    /// Returns the number of tenths.
    #[must_use]
    pub fn tenths(self) -> u32 {
        self.0
    }
}

impl TryFrom<String> for Capability {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match parts {
            Some((major @ 0..100_u32, minor @ 0..10_u32)) => Ok(Capability(major * 10 + minor)),
            _ => Err(format!("{text:?} is not a compute capability, such as \"9.0\"")),
        }
    }
}

impl From<Capability> for String {
    fn from(capability: Capability) -> String {
        capability.to_string()
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

//! Releases of cuDNN and compute capabilities, which files contain as text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A release of cuDNN, written as `9.10.2`. `9.10` is read as `9.10.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release(u32);

impl Release {
    /// Returns the release with this number, as returned by `cudnnGetVersion`.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Release(number)
    }

    /// Returns the number that `cudnnGetVersion` returns for this release.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<String> for Release {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts: Option<Vec<u32>> =
            text.split('.').map(|part| part.parse().ok().filter(|part| *part < 100)).collect();
        match parts.as_deref() {
            Some([major, minor]) => Ok(Release(major * 10_000 + minor * 100)),
            Some([major, minor, patch]) => Ok(Release(major * 10_000 + minor * 100 + patch)),
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
        write!(f, "{}.{}.{}", self.0 / 10_000, self.0 / 100 % 100, self.0 % 100)
    }
}

/// A compute capability, written as `9.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Capability(u32);

impl Capability {
    /// Returns the capability with this number of tenths: 90 for `9.0`.
    #[must_use]
    pub fn from_tenths(tenths: u32) -> Self {
        Capability(tenths)
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

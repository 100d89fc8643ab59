//! Parses, compares and displays cuDNN versions.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "serde")]
crate::portable!(Version);

/// A cuDNN version such as `9.28.0`. Versions are ordered by release.
///
/// ```
/// use cudnn_probe::Version;
/// let version: Version = "9.10.2".parse()?;
/// assert!(version >= Version::new(9, 8, 0));
/// # Ok::<(), cudnn_probe::VersionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Version {
    /// The major version. Releases with the same major version have the same ABI.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
    /// The patch level.
    pub patch: u32,
}

impl Version {
    /// Creates a version from three numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Version { major, minor, patch }
    }

    /// Creates a version from the four bytes of a version symbol: patch, minor, major and 0.
    #[must_use]
    pub const fn from_symbol(bytes: [u8; 4]) -> Self {
        let [patch, minor, major, _] = bytes;
        Version::new(major as u32, minor as u32, patch as u32)
    }

    /// Returns the number that `cudnnGetVersion` of cuDNN 9 returns, such as 92800.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.major * 10000 + self.minor * 100 + self.patch
    }

    /// Creates a version from the result of `cudnnGetVersion`. For example, 92800 is 9.28.0. Before cuDNN 9, the major
    /// version was multiplied by 1000 only, as in 8907 for 8.9.7.
    #[must_use]
    pub const fn from_number(number: usize) -> Self {
        let number = number as u32;
        if number < 90000 {
            Version::new(number / 1000, number % 1000 / 100, number % 100)
        } else {
            Version::new(number / 10000, number % 10000 / 100, number % 100)
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The error of [`Version::from_str`] for an invalid version. `Debug` prints the message, because `main` uses this
/// format.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionError {
    input: String,
}

impl VersionError {
    /// Returns the invalid text.
    #[must_use]
    pub fn input(&self) -> &str {
        &self.input
    }
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a cuDNN version: write it as 9.10 or 9.10.2", self.input)
    }
}

impl fmt::Debug for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for VersionError {}

impl FromStr for Version {
    type Err = VersionError;

    /// Parses two or three numbers that are separated by dots. A missing third number is 0.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { input: text.to_owned() };
        // `parse` accepts a leading plus sign, which is not allowed here.
        let parse = |number: &str| number.parse::<u32>().ok().filter(|_| !number.starts_with('+'));
        let mut numbers = text.split('.').map(|number| parse(number).ok_or_else(error));
        let version = Version {
            major: numbers.next().ok_or_else(error)??,
            minor: numbers.next().ok_or_else(error)??,
            patch: numbers.next().unwrap_or(Ok(0))?,
        };
        if numbers.next().is_some() { Err(error()) } else { Ok(version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_by_the_scheme_of_its_major_version() {
        assert_eq!(Version::from_number(92800), Version::new(9, 28, 0));
        assert_eq!(Version::from_number(90000), Version::new(9, 0, 0));
        assert_eq!(Version::from_number(91002), Version::new(9, 10, 2));
        assert_eq!(Version::from_number(8907), Version::new(8, 9, 7));
    }

    #[test]
    fn a_version_is_displayed_as_it_is_parsed() {
        assert_eq!(Version::new(9, 10, 2).to_string(), "9.10.2");
    }

    #[test]
    fn text_that_is_not_a_version_is_rejected() {
        assert_eq!("9.10".parse(), Ok(Version::new(9, 10, 0)));
        for text in ["", "9", "9.x", "9.1.2.3", "-9.1", "+9.1", "99999999999.0"] {
            let error = text.parse::<Version>().unwrap_err();
            assert_eq!(error.input(), text);
            assert!(error.to_string().contains(&format!("{text:?} is not a cuDNN version")), "{error}");
        }
    }
}

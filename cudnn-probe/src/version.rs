//! A cuDNN version, in each of the forms in which it is written. Imports nothing.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "serde")]
crate::portable!(Version);

/// A cuDNN version: `9.28.0`. Versions are ordered as their releases are.
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
    /// The first number. Releases with the same major version share one ABI.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number, which NVIDIA calls the patch level.
    pub patch: u32,
}

impl Version {
    /// A version from its three numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Version { major, minor, patch }
    }

    /// A version from the four bytes of a library's version symbol: patch, minor, major, 0.
    #[must_use]
    pub const fn from_symbol(bytes: [u8; 4]) -> Self {
        let [patch, minor, major, _] = bytes;
        Version::new(major as u32, minor as u32, patch as u32)
    }

    /// The number that `cudnnGetVersion` returns for a cuDNN 9: 92800.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.major * 10000 + self.minor * 100 + self.patch
    }

    /// A version from the number that `cudnnGetVersion` returns: 92800 is 9.28.0. Before cuDNN 9 the major version was
    /// counted in thousands: 8907 is 8.9.7.
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

/// The error of [`Version::from_str`]: the text is not a version. Its `Debug` is its text, for a `main` that returns it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionError {
    input: String,
}

impl VersionError {
    /// The text that is not a version.
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

    /// Parses two or three numbers with dots between them. A missing third number is 0.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { input: text.to_owned() };
        // `parse` alone would accept a sign.
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

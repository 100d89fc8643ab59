//! A cuDNN version, in each of the forms in which it is written.

use std::fmt;
use std::str::FromStr;

/// A cuDNN version: `9.28.0`. Ordered as releases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The first number; all releases of one major share one ABI.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third, also called patch level.
    pub patch: u32,
}

impl Version {
    /// From its three numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Version { major, minor, patch }
    }

    /// From the four bytes of a library's version symbol: patch, minor, major, 0.
    #[must_use]
    pub const fn from_symbol(bytes: [u8; 4]) -> Self {
        let [patch, minor, major, _] = bytes;
        Version::new(major as u32, minor as u32, patch as u32)
    }

    /// From the number that `cudnnGetVersion` returns: 92800 is 9.28.0. cuDNN 8 and before counted in thousands
    /// (8907 is 8.9.7).
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

/// The text is no version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionError {
    text: String,
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no cuDNN version; write it as 9.10.2 or 9.10", self.text)
    }
}

impl std::error::Error for VersionError {}

impl FromStr for Version {
    type Err = VersionError;

    /// Two or three numbers with dots between; a missing third one is 0.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { text: text.to_owned() };
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().map_err(|_| error()));
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
    fn the_number_of_each_major_is_read_as_that_major_writes_it() {
        assert_eq!(Version::from_number(92800), Version::new(9, 28, 0));
        assert_eq!(Version::from_number(91002), Version::new(9, 10, 2));
        assert_eq!(Version::from_number(8907), Version::new(8, 9, 7));
    }

    #[test]
    fn a_text_that_is_no_version_is_refused() {
        assert_eq!("9.10".parse(), Ok(Version::new(9, 10, 0)));
        for text in ["", "9", "9.x", "9.1.2.3", "-9.1", "99999999999.0"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}

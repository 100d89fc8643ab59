//! The release of cuDNN in a requirement: a framework requires at least the one that it was built with.

use cudnn_probe::Version;

use crate::conda;
use crate::requirement::Pin;

/// The oldest cuDNN that this requirement accepts, if it is one of cuDNN's.
pub(crate) fn lower_bound(pin: &Pin) -> Option<Version> {
    if matches!(pin.package.as_str(), "cudnn" | "libcudnn") {
        let numbers = conda::lower_bound(&pin.requirement)?;
        let number = |index: usize| numbers.get(index).copied().unwrap_or(0);
        return Some(Version::new(*numbers.first()?, number(1), number(2)));
    }
    let is_cudnn = pin.package.strip_prefix("nvidia-cudnn-cu").is_some_and(|cuda| cuda.parse::<u32>().is_ok());
    // An address is no version.
    if !is_cudnn || pin.requirement.contains('@') {
        return None;
    }
    // Until 2024 the specifiers were in parentheses.
    let specifiers = pin.requirement.split(';').next()?.replace(['(', ')'], "");
    specifiers.split(',').find_map(bound)
}

/// 9.10.2 of `nvidia-cudnn-cu12==9.10.2.21`.
fn bound(specifier: &str) -> Option<Version> {
    let (_, version) = ["==", ">=", "~="].into_iter().find_map(|operator| specifier.split_once(operator))?;
    let mut numbers = version.trim().split('.').map_while(|number| number.trim().parse().ok());
    Some(Version::new(numbers.next()?, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirement::PinState;

    #[test]
    fn the_bound_is_read_in_every_form() {
        for (package, requirement, expected) in [
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"", Some((9, 10, 2))),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == \"Linux\"", Some((8, 9, 2))),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12 ==9.3.0.75 ; extra == 'and-cuda'", Some((9, 3, 0))),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12<10.0,>=9.8; extra == \"with-cuda\"", Some((9, 8, 0))),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12~=9.0; extra == 'cudnn'", Some((9, 0, 0))),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12 >= 9.1, < 10", Some((9, 1, 0))),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12<10.0", None),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12; python_version >= '3.9'", None),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12==x", None),
            ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12 @ https://example.org/cudnn.whl?a==9.1", None),
            ("cudnn", "cudnn >=9.10.1.4,<10.0a0", Some((9, 10, 1))),
            ("libcudnn", "libcudnn 9.10.*", Some((9, 10, 0))),
            ("cudnn", "cudnn", None),
            ("nvidia-cublas-cu12", "nvidia-cublas-cu12==12.8.4.1", None),
            ("nvidia-cudnn-frontend", "nvidia-cudnn-frontend==1.13.0", None),
        ] {
            let pin = Pin {
                requirement: requirement.into(),
                package: package.into(),
                state: PinState::Missing,
                extra: None,
                through: None,
            };
            let expected = expected.map(|(major, minor, patch)| Version::new(major, minor, patch));
            assert_eq!(lower_bound(&pin), expected, "{requirement}");
        }
    }
}

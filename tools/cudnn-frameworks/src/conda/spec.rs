//! conda's match specifications: `cudnn >=9.10.1.4,<10.0a0`, `cuda-version 12.6.*`, `cudatoolkit 11.8.* h1a2b3c4_0`.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

use crate::kind::fits;

/// The name of the package.
pub(crate) fn name(spec: &str) -> &str {
    spec.split(|c: char| c.is_whitespace() || "<>=!~[".contains(c)).next().unwrap_or_default()
}

/// Whether a specification accepts a version and a build.
///
/// # Errors
/// The reason why nobody can say.
pub(super) fn accepts(spec: &str, version: &str, build: &str) -> Result<bool, String> {
    let mut words = spec.strip_prefix(name(spec)).unwrap_or_default().split_whitespace();
    let (wanted, wanted_build) = (words.next().unwrap_or("*"), words.next().unwrap_or("*"));
    if words.next().is_some() || wanted.contains(['|', '(', '[']) {
        return Err("the dependency has alternatives".into());
    }
    let clauses: Vec<String> = wanted.split(',').filter(|clause| *clause != "*").map(clause).collect();
    let specifiers = VersionSpecifiers::from_str(&clauses.join(",")).map_err(|_| "the dependency cannot be parsed")?;
    let version =
        Version::from_str(version).map_err(|_| format!("the installed version {version} is not a version"))?;
    Ok(specifiers.contains(&version) && fits(wanted_build, build))
}

/// A clause in Python's syntax: `==9.10.*` for `9.10.*`, `9.10*` and `=9.10`.
fn clause(clause: &str) -> String {
    let exact = |version: &str| format!("=={version}");
    let any = |version: &str| format!("=={}.*", version.trim_end_matches('*').trim_end_matches('.'));
    match clause.strip_prefix('=').filter(|rest| !rest.starts_with('=')) {
        Some(version) => any(version),
        None if clause.starts_with(['<', '>', '=', '!', '~']) => clause.trim_end_matches(".*").to_owned(),
        None if clause.ends_with('*') => any(clause),
        None => exact(clause),
    }
}

/// The numbers of the oldest version that it accepts, if it states one.
pub(crate) fn lower_bound(spec: &str) -> Option<Vec<u32>> {
    let wanted = spec.strip_prefix(name(spec))?.split_whitespace().next()?;
    let bound = wanted.split(',').find_map(|clause| {
        let is_bound = clause.starts_with(">=") || !clause.starts_with(['<', '>', '!']);
        is_bound.then(|| clause.trim_start_matches(['>', '=', '~']))
    })?;
    let numbers: Vec<u32> = bound.split('.').map_while(|number| number.parse().ok()).collect();
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_compared_as_conda_does() {
        for (spec, version, build, expected) in [
            ("cudnn >=9.10.1.4,<10.0a0", "9.10.1.4", "h1_0", Some(true)),
            ("cudnn >=9.10.1.4,<10.0a0", "9.8.0.87", "h1_0", Some(false)),
            ("cudnn >=9.10.1.4,<10.0a0", "10.0.0.1", "h1_0", Some(false)),
            ("cudnn", "9.8.0.87", "h1_0", Some(true)),
            ("cudnn *", "9.8.0.87", "h1_0", Some(true)),
            ("cudnn 8.9.*", "8.9.7.29", "h1_0", Some(true)),
            ("cudnn 8.9*", "8.10.7.29", "h1_0", Some(false)),
            ("cudnn =8.9", "8.9.7.29", "h1_0", Some(true)),
            ("cudnn 8.9.7.29 h1_*", "8.9.7.29", "h1_0", Some(true)),
            ("cudnn 8.9.7.29 h2_*", "8.9.7.29", "h1_0", Some(false)),
            ("cudnn 8.9|9.0", "9.0", "h1_0", None),
            ("cudnn >=x", "9.0", "h1_0", None),
            ("cudnn >=9", "x", "h1_0", None),
        ] {
            assert_eq!(accepts(spec, version, build).ok(), expected, "{spec} {version} {build}");
        }
    }

    #[test]
    fn the_bound_is_the_oldest_that_is_accepted() {
        for (spec, expected) in [
            ("cudnn >=9.10.1.4,<10.0a0", Some(&[9, 10, 1, 4][..])),
            ("cuda-version >=12.6,<13", Some(&[12, 6])),
            ("cuda-version 12.6.*", Some(&[12, 6])),
            ("cudnn <10.0a0,>=9.3", Some(&[9, 3])),
            ("cudnn <10.0a0", None),
            ("cudnn", None),
        ] {
            assert_eq!(lower_bound(spec).as_deref(), expected, "{spec}");
        }
    }
}

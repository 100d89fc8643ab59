//! Compares package requirements by name and version.

use cudnn_frameworks::{allows, allows_from, exclude_each_other};

/// Returns the requirement that satisfies both requirements of a package, or `None` if they conflict.
pub(super) fn stricter<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    let is_any = |requirement: &str| requirement.ends_with(package_name(requirement));
    let is_minimum = |requirement: &str| matches!(bound(requirement), Some(Bound::Minimum(_)));
    let is_stricter = |one: &str, other: &str| match bound(one) {
        _ if is_any(other) => true,
        Some(Bound::Exact(version)) => allows(other, version),
        Some(Bound::Minimum(version)) => is_minimum(other) && allows(other, version),
        None => false,
    };
    match (one == other || is_stricter(one, other), is_stricter(other, one)) {
        (true, _) => Some(one),
        (false, true) => Some(other),
        (false, false) => None,
    }
}

enum Bound<'a> {
    /// `x==9.19.0.56`; apt and conda use a single `=`.
    Exact(&'a str),
    Minimum(&'a str),
}

fn bound(requirement: &str) -> Option<Bound<'_>> {
    let is_version =
        |text: &&str| text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains([',', '*', ' ', ';']);
    let after = |operator| requirement.split_once(operator).map(|(_, version)| version).filter(is_version);
    let exact = || after("==").or_else(|| after("=")).map(Bound::Exact);
    after(">=").map(Bound::Minimum).or_else(exact)
}

/// Returns the package name in a requirement: `nvidia-cudnn-cu12` for `nvidia-cudnn-cu12>=9.1`.
pub fn package_name(requirement: &str) -> &str {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let after_channel = requirement.rsplit("::").next().unwrap_or_default();
    after_channel.split(|c| !is_of_name(c)).next().unwrap_or_default()
}

/// Adds version specifiers to a requirement.
pub(crate) fn with_specifiers(requirement: &str, specifiers: &str) -> String {
    let separator = if allows_from(requirement, "0").is_some() { "," } else { "" };
    format!("{requirement}{separator}{specifiers}")
}

/// Returns whether this is a valid name or version for a package index. Names are read from files, and a leading `-`
/// would be passed to the installer as an option.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~:!".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// Limits a wheel to the major that is known: the CUDA release in the name of a library of CUDA, and 9 for cuDNN, because
/// only cuDNN 9 solves a finding. A remedy may want another one.
pub(super) fn with_known_major(wanted: &str) -> String {
    const OF_CUDA: [&str; 3] = ["nvidia-cublas-cu", "nvidia-cuda-nvrtc-cu", "nvidia-cuda-runtime-cu"];
    let name = package_name(wanted);
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |start: &str| name.strip_prefix(start).filter(is_number);
    let major = OF_CUDA.into_iter().find_map(number).or_else(|| number("nvidia-cudnn-cu").map(|_| "9"));
    let versions = major.map(|major| format!("=={major}.*"));
    match versions.filter(|versions| !exclude_each_other(wanted, &format!("{name}{versions}"))) {
        Some(versions) => with_specifiers(wanted, &versions),
        None => wanted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_of_two_requirements_satisfies_both() {
        for (one, other, expected) in [
            ("x", "x>=9.1", Some("x>=9.1")),
            ("x>=9.9", "x>=9.10", Some("x>=9.10")),
            ("x>=9.1", "x>=9.1.0", Some("x>=9.1")),
            ("x==9.19.0.56", "x>=9.18", Some("x==9.19.0.56")),
            ("x==9.17", "x>=9.18", None),
            ("x==9.17", "x==9.18", None),
            ("x==13.*", "x==13.1.0", Some("x==13.1.0")),
            ("x==13.*", "x==12.*", None),
            ("c::x=9.1", "c::x", Some("c::x=9.1")),
            ("x>=9,<10", "x>=9", None),
            ("x>=9,<10", "x>=9,<10", Some("x>=9,<10")),
        ] {
            assert_eq!(stricter(one, other), expected, "{one} {other}");
            if one != "x>=9.1" {
                assert_eq!(stricter(other, one), expected, "{other} {one}");
            }
        }
    }
}

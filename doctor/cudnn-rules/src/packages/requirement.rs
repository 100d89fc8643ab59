//! Compares package requirements by name and version.

/// The version constraint in a requirement.
enum VersionConstraint<'a> {
    /// Any version: `x`.
    Any,
    /// `x==9.19.0.56`; apt and conda use a single `=`.
    Exact(&'a str),
    /// `x==13.*`, without the asterisk.
    Series(&'a str),
    /// `x>=9.18`.
    Minimum(&'a str),
    /// Another constraint, which only an identical requirement satisfies.
    Other,
}

fn constraint(requirement: &str) -> VersionConstraint<'_> {
    let of_package = requirement.rsplit("::").next().unwrap_or_default();
    let rest = of_package.get(package_name(requirement).len()..).unwrap_or_default();
    if rest.is_empty() {
        return VersionConstraint::Any;
    }
    let is_one =
        |version: &&str| !version.is_empty() && !version.contains(['<', '>', '=', '!', '~', ',', ' ', ';', '[']);
    let after = |operator| rest.strip_prefix(operator).filter(is_one);
    match (after(">="), after("==").or_else(|| after("="))) {
        (Some(version), _) if numbers(version).is_some() => VersionConstraint::Minimum(version),
        (_, Some(version)) => {
            version.strip_suffix('*').map_or(VersionConstraint::Exact(version), VersionConstraint::Series)
        }
        _ => VersionConstraint::Other,
    }
}

/// Parses a version that consists of numbers only.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let mut numbers = version.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

/// Returns the requirement that satisfies both requirements of a package, or `None` if they conflict.
pub(super) fn stricter<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    use VersionConstraint::{Any, Exact, Minimum, Series};
    let is_at_least = |version: &str, minimum: &str| matches!((numbers(version), numbers(minimum)), (Some(version), Some(minimum)) if version >= minimum);
    match (constraint(one), constraint(other)) {
        _ if one == other => Some(one),
        (_, Any) => Some(one),
        (Minimum(first), Minimum(second)) => Some(if is_at_least(first, second) { one } else { other }),
        (Exact(version), Minimum(minimum)) if is_at_least(version, minimum) => Some(one),
        (Exact(version), Series(start)) if version.starts_with(start) => Some(one),
        (Any, _) | (Minimum(_) | Series(_), Exact(_)) => stricter(other, one),
        _ => None,
    }
}

/// Returns whether an installed version satisfies a requirement. Constraints that the doctor does not write, and
/// versions that it cannot compare, count as satisfied.
pub fn is_satisfied_by(requirement: &str, version: &str) -> bool {
    match constraint(requirement) {
        VersionConstraint::Any | VersionConstraint::Other => true,
        VersionConstraint::Series(start) => format!("{version}.").starts_with(start),
        VersionConstraint::Minimum(minimum) => {
            numbers(version).zip(numbers(minimum)).is_none_or(|(version, minimum)| version >= minimum)
        }
        VersionConstraint::Exact(exact) => {
            // `1.0` is `1.0.0`. Indexes add a local version, and conda accepts a version's beginning.
            let (public, _) = version.split_once('+').unwrap_or((version, ""));
            let is_equal = numbers(public).zip(numbers(exact)).is_some_and(|(version, exact)| version == exact);
            let is_beginning =
                !requirement.contains("==") && version.strip_prefix(exact).is_some_and(|rest| rest.starts_with('.'));
            is_equal || version == exact || is_beginning
        }
    }
}

/// Returns the package name in a requirement: `nvidia-cudnn-cu12` for `nvidia-cudnn-cu12>=9.1`.
pub fn package_name(requirement: &str) -> &str {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let after_channel = requirement.rsplit("::").next().unwrap_or_default();
    after_channel.split(|c| !is_of_name(c)).next().unwrap_or_default()
}

/// Returns whether this is a valid name or version for a package index. Names are read from files, and a leading `-`
/// would be passed to the installer as an option.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+~:!".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
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

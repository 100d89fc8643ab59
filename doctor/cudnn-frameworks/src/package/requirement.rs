//! Compares the requirements of packages (`Requires-Dist`) for CUDA packages and parts of frameworks with the installed
//! packages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifier, VersionSpecifiers};

use super::distribution::{self, Distribution};
use super::marker::{Condition, Platform, condition};
use super::metadata;
use super::names::normalized;
use crate::environment::Environment;

/// The package that represents several CUDA packages, which torch 2.11 and later require.
const META_PACKAGE: &str = "cuda-toolkit";
/// The maximum number of pins in a package. torch has 17.
const MAX_PINS: usize = 256;
/// The maximum length of a requirement in bytes, because parentheses recurse. Real ones have up to 250.
const MAX_LEN: usize = 512;

/// The maximum length of a chain of extras that request one another.
const MAX_DEPTH: usize = 16;
/// The maximum number of extras of a package. Real ones have up to 60.
const MAX_EXTRAS: usize = 256;

/// A requirement of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The requirement as written: `nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"`.
    pub requirement: String,
    /// The normalized name of the required package.
    pub package: String,
    /// Whether the installed package meets the requirement.
    pub state: PinState,
    /// The normalized extra that contains the requirement (`tensorflow[and-cuda]`). No file records which extras the
    /// user has installed.
    pub extra: Option<String>,
    /// The intermediate package that contains the requirement: `cuda-toolkit`.
    pub through: Option<String>,
}

impl Pin {
    /// Creates a pin outside of extras.
    pub(super) fn new(requirement: String, package: String, state: PinState) -> Self {
        Pin { requirement, package, state, extra: None, through: None }
    }

    /// Returns the start of a requirement that could not be compared, and the reason. Ignores requirements with a URL.
    pub(crate) fn unreadable(&self) -> Option<String> {
        let PinState::Unknown(reason) = &self.state else { return None };
        let (requirement, reason) = (shortened(&self.requirement), shortened(reason));
        let text = || format!("has a requirement that was not compared: {requirement}: {reason}");
        (!self.requirement.contains('@')).then(text)
    }

    /// Returns the requirement without the marker, as installers accept it: `nvidia-cudnn-cu12==9.10.2.21`, or
    /// `nvidia-cudnn-cu12 @ https://example.org/cudnn.whl`.
    pub fn without_marker(&self) -> String {
        if let Some((name, address)) = self.requirement.split_once('@') {
            // URLs may contain semicolons, but a blank precedes a marker.
            let address = address.split(" ;").next().unwrap_or(address);
            return format!("{} @ {}", name.trim(), address.trim());
        }
        let specifiers = self.requirement.split(';').next().unwrap_or(&self.package);
        // Versions had parentheses until 2024.
        specifiers.replace(['(', ')', ' '], "")
    }
}

/// Whether a requirement is met.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinState {
    /// This installed version meets the requirement.
    Met(String),
    /// This installed version does not meet the requirement.
    OtherVersion(String),
    /// The package is not installed.
    Missing,
    /// The comparison is not possible, for this reason.
    Unknown(String),
}

impl PinState {
    pub(super) fn of(version: &str, is_met: Result<bool, String>) -> Self {
        match is_met {
            Ok(true) => PinState::Met(version.to_owned()),
            Ok(false) => PinState::OtherVersion(version.to_owned()),
            Err(reason) => PinState::Unknown(reason),
        }
    }
}

fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let start: String = text.chars().take(MAX_CHARS).collect();
    if start.len() < text.len() { format!("{start}...") } else { start }
}

pub(crate) fn is_cuda(package: &str) -> bool {
    const NAMES: [&str; 4] = ["triton", "pytorch-triton", "jax", "jaxlib"];
    const PREFIXES: [&str; 5] = ["nvidia-", "cuda-", "jax-cuda", "tensorrt", "transformer-engine"];
    NAMES.contains(&package) || PREFIXES.iter().any(|prefix| package.starts_with(prefix))
}

pub(crate) fn pins(of: &Distribution, installed: &[Distribution], environment: &Environment) -> Vec<Pin> {
    let platform = Platform::of(environment);
    let pin = |requirement: String, extras: &[String]| pin(requirement, &platform, installed, extras);
    // Unreadable metadata is already reported.
    let requirements_of = |package: &Distribution| metadata::read(&package.info_dir).unwrap_or_default().requirements;
    let mut pins = Vec::new();
    for (found, extras) in requirements_of(of).into_iter().filter_map(|requirement| pin(requirement, &[])) {
        let meta = installed.iter().find(|package| package.name == META_PACKAGE && found.package == META_PACKAGE);
        let extra = found.extra.clone();
        pins.push(found);
        for requirement in meta.filter(|_| !extras.is_empty()).map(requirements_of).unwrap_or_default() {
            if let Some((below, _)) = pin(requirement, &extras).filter(|(below, _)| below.extra.is_none()) {
                pins.push(Pin { extra: extra.clone(), through: Some(META_PACKAGE.into()), ..below });
            }
        }
    }
    pins.truncate(MAX_PINS);
    pins
}

/// Requires another package to have the same version, without suffixes such as `.dev20261122`, because JAX compares
/// only the numbers.
pub(crate) fn same_version(of: &Distribution, package: &str, installed: &[Distribution]) -> Pin {
    let numbers =
        |version: &str| installed_version(version).map_or(version.into(), |found| found.only_release().to_string());
    let wanted: String = numbers(&of.version);
    let other = installed.iter().find(|other| other.name == package);
    let state = |other: &Distribution| PinState::of(&other.version, Ok(numbers(&other.version) == wanted));
    Pin::new(format!("{package}=={wanted}"), package.to_owned(), other.map_or(PinState::Missing, state))
}

/// Parses a requirement for this platform and these extras. Also returns the extras that the requirement requests.
fn pin(
    requirement: String,
    platform: &Platform,
    installed: &[Distribution],
    extras: &[String],
) -> Option<(Pin, Vec<String>)> {
    let package = normalized(name(&requirement));
    if !is_cuda(&package) {
        return None;
    }
    let parsed = Parsed::new(&requirement).and_then(|parsed| {
        let condition = parsed.marker.map_or(Ok(Condition::Always), |marker| condition(marker, platform, extras))?;
        let found = installed.iter().find(|other| other.name == package);
        let state = |found: &Distribution| PinState::of(&found.version, parsed.is_met_by(&found.version));
        Ok((condition, found.map_or(PinState::Missing, state), parsed.extras))
    });
    let (extra, state, asked) = match parsed {
        Ok((Condition::Never, ..)) => return None,
        Ok((Condition::With(extra), state, asked)) => (Some(extra), state, asked),
        Ok((Condition::Always, state, asked)) => (None, state, asked),
        Err(reason) => (None, PinState::Unknown(reason), Vec::new()),
    };
    Some((Pin { extra, ..Pin::new(requirement, package, state) }, asked))
}

/// Returns the normalized names of the packages that the package with this metadata directory requires, on any platform
/// and with any extra.
pub fn required_packages(info_dir: &Path) -> Vec<String> {
    requirements(info_dir).iter().map(|requirement| normalized(name(requirement))).collect()
}

/// Returns the requirements in this metadata directory of a package, as written.
fn requirements(info_dir: &Path) -> Vec<String> {
    metadata::read(info_dir).map(|metadata| metadata.requirements).unwrap_or_default()
}

pub(super) fn name(requirement: &str) -> &str {
    requirement.trim_start().split(|c: char| !is_of_name(c)).next().unwrap_or_default()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(is_of_name)
}

struct Parsed<'a> {
    /// The requested extras, normalized: `cublas` for `cuda-toolkit[cublas]`.
    extras: Vec<String>,
    /// The allowed versions. `None` if the requirement is a URL.
    versions: Option<VersionSpecifiers>,
    marker: Option<&'a str>,
}

impl<'a> Parsed<'a> {
    /// Parses a requirement, also in the old syntax with versions in parentheses. An error is the reason why it is
    /// invalid.
    fn new(text: &'a str) -> Result<Self, String> {
        if text.len() > MAX_LEN {
            return Err("the requirement is too long".into());
        }
        let name = name(text);
        let rest = text.trim_start().strip_prefix(name).unwrap_or_default().trim_start();
        let (extras, rest) = match rest.strip_prefix('[') {
            Some(after) => after.split_once(']').ok_or("expected `]` after the extras")?,
            None => ("", rest),
        };
        let extras: Vec<&str> = extras.split(',').map(str::trim).filter(|_| !extras.trim().is_empty()).collect();
        if !is_name(name) || !extras.iter().all(|extra| is_name(extra)) {
            return Err("the requirement does not name a package".into());
        }
        let extras = extras.into_iter().map(normalized).collect();
        if let Some(address) = rest.trim_start().strip_prefix('@') {
            // URLs may contain semicolons, but a blank precedes a marker.
            let marker = address.trim_start().split_once(char::is_whitespace).map(|(_, rest)| rest.trim_start());
            let marker = marker.and_then(|rest| rest.strip_prefix(';'));
            return Ok(Parsed { extras, versions: None, marker });
        }
        let (versions, marker) = rest.split_once(';').map_or((rest, None), |(rest, marker)| (rest, Some(marker)));
        let versions = match versions.trim().strip_prefix('(') {
            Some(versions) => versions.strip_suffix(')').ok_or("expected `)` after the versions")?,
            None => versions.trim(),
        };
        // The first line contains the error.
        let explain = |error: String| error.lines().next().unwrap_or_default().to_owned();
        let versions = VersionSpecifiers::from_str(versions).map_err(|error| explain(error.to_string()))?;
        Ok(Parsed { extras, versions: Some(versions), marker })
    }

    /// Returns whether this version meets the requirement, or the reason why this is unknown.
    fn is_met_by(&self, version: &str) -> Result<bool, String> {
        let versions = self.versions.as_ref().ok_or("it requires a URL instead of a version")?;
        if versions.is_empty() {
            return Ok(true);
        }
        Ok(versions.contains(&installed_version(version)?))
    }
}

/// Parses an installed version. An error is the reason why it cannot be compared.
pub(super) fn installed_version(version: &str) -> Result<Version, String> {
    Version::from_str(version).map_err(|_| format!("the installed version {version} is invalid"))
}

/// Returns the accepted versions of a requirement of pip, conda or apt. `None` if it accepts all or cannot be parsed.
fn specifiers(requirement: &str) -> Option<VersionSpecifiers> {
    let requirement = requirement.rsplit("::").next().unwrap_or_default();
    let of_conda = || {
        let versions = requirement.trim_start().strip_prefix(name(requirement))?;
        let clauses: Vec<String> = versions.split(',').map(|part| clause(part.trim())).collect();
        VersionSpecifiers::from_str(&clauses.join(",")).ok()
    };
    let parsed = Parsed::new(requirement).map(|parsed| parsed.versions).or_else(|_| of_conda().map(Some).ok_or(()));
    parsed.ok().flatten().filter(|specifiers| !specifiers.is_empty())
}

/// Converts a clause of conda to Python's syntax: `==9.10.*` for `9.10.*`, `9.10*` and `=9.10`. Also converts apt's
/// full versions, such as `=9.10.2.21-1`.
pub(super) fn clause(clause: &str) -> String {
    let any = |version: &str| format!("=={}.*", version.trim_end_matches('*').trim_end_matches('.'));
    match clause.strip_prefix('=').filter(|rest| !rest.starts_with('=')) {
        Some(version) if version.contains('-') => format!("=={version}"),
        Some(version) => any(version),
        None if clause.starts_with(['<', '>', '=', '!', '~']) => clause.trim_end_matches(".*").to_owned(),
        None if clause.ends_with('*') => any(clause),
        None => format!("=={clause}"),
    }
}

/// Returns whether a requirement of pip, conda or apt accepts this version. An invalid requirement accepts all.
pub fn allows(requirement: &str, version: &str) -> bool {
    let version = Version::from_str(version);
    specifiers(requirement).is_none_or(|specifiers| version.is_ok_and(|version| specifiers.contains(&version)))
}

/// Returns whether a requirement names the URL of the package instead of versions.
pub fn requires_url(requirement: &str) -> bool {
    Parsed::new(requirement).is_ok_and(|parsed| parsed.versions.is_none())
}

/// Returns whether the marker of a requirement applies to this platform and these normalized extras of the package. A marker
/// that cannot be parsed counts as one that applies.
pub fn applies(requirement: &str, platform: &Platform, extras: &[String]) -> bool {
    let marker = Parsed::new(requirement).ok().and_then(|parsed| parsed.marker);
    let is_met = |marker| !matches!(condition(marker, platform, extras), Ok(Condition::Never | Condition::With(_)));
    marker.is_none_or(is_met)
}

/// Returns the packages that the Python of an environment imports, with their requirements that apply there: also those of
/// the extras that other packages request.
pub fn packages_with_requirements(environment: &Environment) -> Vec<(Distribution, Vec<String>)> {
    let platform = Platform::of(environment);
    let packages = distribution::read(environment, |_| false).distributions;
    let packages: Vec<_> = packages.into_iter().map(|package| (requirements(&package.info_dir), package)).collect();
    let mut extras: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for _ in 0..MAX_DEPTH {
        let mut has_new = false;
        found.clear();
        for (all, package) in &packages {
            let own: Vec<String> = extras.get(&package.name).into_iter().flatten().take(MAX_EXTRAS).cloned().collect();
            let required = all.iter().filter(|one| applies(one, &platform, &own)).cloned().collect::<Vec<_>>();
            for one in required.iter().filter(|one| one.contains('[')) {
                let requested = extras.entry(normalized(name(one))).or_default();
                for extra in Parsed::new(one).map(|parsed| parsed.extras).unwrap_or_default() {
                    has_new |= requested.len() < MAX_EXTRAS && requested.insert(extra);
                }
            }
            found.push((package.clone(), required));
        }
        if !has_new {
            break;
        }
    }
    found
}

/// Returns why this requirement is invalid, without reading the marker.
pub fn requirement_error(requirement: &str) -> Option<String> {
    Parsed::new(requirement).err()
}

/// Returns whether two requirements exclude each other, as far as the versions that they mention show.
pub fn exclude_each_other(one: &str, other: &str) -> bool {
    let [Some(one), Some(other)] = [one, other].map(specifiers) else { return false };
    !is_any_allowed(&[&one, &other], &Version::new([0]))
}

/// Returns a requirement's version specifiers (`>=9.8,<10`), and whether they allow this version or a newer one. `None`
/// without specifiers and for invalid requirements.
pub fn allows_from(requirement: &str, minimum: &str) -> Option<(String, bool)> {
    let specifiers = specifiers(requirement)?;
    let is_allowed = is_any_allowed(&[&specifiers], &Version::from_str(minimum).ok()?);
    let text: Vec<String> = specifiers.iter().map(ToString::to_string).collect();
    Some((text.join(","), is_allowed))
}

/// Returns whether all specifiers allow the same version, at least `minimum`.
fn is_any_allowed(all: &[&VersionSpecifiers], minimum: &Version) -> bool {
    // If any version is allowed, one of these is: the minimum, the versions in the specifiers, and versions just after
    // them.
    let named = all.iter().flat_map(|specifiers| specifiers.iter().map(|specifier| specifier.version().clone()));
    let mut versions: Vec<Version> = std::iter::once(minimum.clone()).chain(named).collect();
    let after = |version: &Version| Version::from_str(&format!("{version}.9999")).ok();
    versions.extend(versions.clone().iter().filter_map(after));
    let is_allowed = |version: &&Version| all.iter().all(|specifiers| specifiers.contains(version));
    versions.iter().filter(|version| *version >= minimum).any(|version| is_allowed(&version))
}

/// Returns the numbers of the oldest version that a requirement accepts: 9, 10, 2 and 21 for
/// `nvidia-cudnn-cu12==9.10.2.21`.
pub(crate) fn lower_bound(requirement: &str) -> Option<Vec<u32>> {
    use pep440_rs::Operator::{Equal, EqualStar, ExactEqual, GreaterThanEqual, TildeEqual};
    let specifiers = specifiers(requirement)?;
    let is_lower = |specifier: &&VersionSpecifier| {
        matches!(specifier.operator(), Equal | EqualStar | ExactEqual | GreaterThanEqual | TildeEqual)
    };
    let bound = specifiers.iter().find(is_lower)?;
    bound.version().release().iter().map(|number| u32::try_from(*number).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_bounds_are_parsed_in_every_syntax() {
        for (requirement, expected) in [
            ("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"", &[9, 10, 2, 21][..]),
            ("nvidia-cudnn-cu12 (==8.9.2.26) ; platform_system == \"Linux\"", &[8, 9, 2, 26]),
            ("nvidia-cudnn-cu12 ==9.3.0.75 ; extra == 'and-cuda'", &[9, 3, 0, 75]),
            ("nvidia-cudnn-cu12<10.0,>=9.8; extra == \"with-cuda\"", &[9, 8]),
            ("nvidia-cudnn-cu12~=9.0; extra == 'cudnn'", &[9, 0]),
            ("nvidia-cudnn-cu12 >= 9.1, < 10", &[9, 1]),
            ("nvidia-cudnn-cu12<10.0", &[]),
            ("nvidia-cudnn-cu12; python_version >= '3.9'", &[]),
            ("nvidia-cudnn-cu12==x", &[]),
            ("nvidia-cudnn-cu12 @ https://example.org/cudnn.whl?a==9.1", &[]),
            ("cudnn >=9.10.1.4,<10.0a0", &[9, 10, 1, 4]),
            ("libcudnn 9.10.*", &[9, 10]),
            ("cuda-version >=12.6,<13", &[12, 6]),
            ("cudnn <10.0a0,>=9.3", &[9, 3]),
            ("cudnn <10.0a0", &[]),
            ("cudnn", &[]),
        ] {
            assert_eq!(lower_bound(requirement).unwrap_or_default(), expected, "{requirement}");
        }
    }
}

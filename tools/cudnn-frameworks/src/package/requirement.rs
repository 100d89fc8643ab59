//! Compares the requirements of a package (`Requires-Dist`) with what is installed. Only packages of CUDA and of the
//! frameworks' own parts count.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};

use super::distribution::Distribution;
use super::marker::{Condition, Platform, condition};
use super::metadata;
use super::names::normalized;
use crate::environment::Environment;

/// The package that stands for several of CUDA's; torch 2.11 and later require it in place of them.
const META_PACKAGE: &str = "cuda-toolkit";
/// The most pins of one package. torch has 17.
const MAX_PINS: usize = 256;
/// The most bytes of a requirement, in which parentheses recurse. Real ones have up to 250.
const MAX_LEN: usize = 512;

/// A requirement of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// As its metadata states it: `nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"`.
    pub requirement: String,
    /// The normalized name of the required package.
    pub package: String,
    /// What is installed.
    pub state: PinState,
    /// The extra that it belongs to (`tensorflow[and-cuda]`), normalized; such a package is required only if one was
    /// asked for, which no file records.
    pub extra: Option<String>,
    /// The package between, whose metadata has the requirement: `cuda-toolkit`.
    pub through: Option<String>,
}

impl Pin {
    /// A pin of the package itself, which no extra requires.
    pub(super) fn new(requirement: String, package: String, state: PinState) -> Self {
        Pin { requirement, package, state, extra: None, through: None }
    }

    /// Why this requirement was not compared, with the start of both. A requirement of the file at an address never is.
    pub(crate) fn unreadable(&self) -> Option<String> {
        let PinState::Unknown(reason) = &self.state else { return None };
        let (requirement, reason) = (shortened(&self.requirement), shortened(reason));
        let text = || format!("has a requirement that was not compared: {requirement}: {reason}");
        (!self.requirement.contains('@')).then(text)
    }

    /// The requirement without its marker, as installers take it: `nvidia-cudnn-cu12==9.10.2.21`, or
    /// `nvidia-cudnn-cu12 @ https://example.org/cudnn.whl`.
    pub fn without_marker(&self) -> String {
        if let Some((name, address)) = self.requirement.split_once('@') {
            // An address may contain a semicolon; a marker follows a blank.
            let address = address.split(" ;").next().unwrap_or(address);
            return format!("{} @ {}", name.trim(), address.trim());
        }
        let specifiers = self.requirement.split(';').next().unwrap_or(&self.package);
        // Until 2024 the versions were in parentheses.
        specifiers.replace(['(', ')', ' '], "")
    }
}

/// Whether a requirement is met.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinState {
    /// By this version.
    Met(String),
    /// The package is installed in this version, which does not meet it.
    OtherVersion(String),
    /// The package is not installed.
    Missing,
    /// It cannot be compared with what is installed, for this reason.
    Unknown(String),
}

impl PinState {
    /// The state for an installed version, by whether that meets the requirement.
    pub(super) fn of(version: &str, is_met: Result<bool, String>) -> Self {
        match is_met {
            Ok(true) => PinState::Met(version.to_owned()),
            Ok(false) => PinState::OtherVersion(version.to_owned()),
            Err(reason) => PinState::Unknown(reason),
        }
    }
}

/// The start of a text.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let start: String = text.chars().take(MAX_CHARS).collect();
    if start.len() < text.len() { format!("{start}...") } else { start }
}

/// Whether requirements of a package with this normalized name concern CUDA.
pub(crate) fn is_cuda(package: &str) -> bool {
    const NAMES: [&str; 4] = ["triton", "pytorch-triton", "jax", "jaxlib"];
    const PREFIXES: [&str; 5] = ["nvidia-", "cuda-", "jax-cuda", "tensorrt", "transformer-engine"];
    NAMES.contains(&package) || PREFIXES.iter().any(|prefix| package.starts_with(prefix))
}

/// The requirements of a package that concern CUDA.
pub(crate) fn pins(of: &Distribution, installed: &[Distribution], environment: &Environment) -> Vec<Pin> {
    let platform = Platform::new(environment.python);
    let pin = |requirement: String, extras: &[String]| pin(requirement, &platform, installed, extras);
    // Packages whose metadata cannot be read are reported already.
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

/// The requirement that a package has the same version, but for what follows the numbers (`.dev20261122`): JAX compares
/// all numbers.
pub(crate) fn same_version(of: &Distribution, package: &str, installed: &[Distribution]) -> Pin {
    let numbers =
        |version: &str| installed_version(version).map_or(version.into(), |found| found.only_release().to_string());
    let wanted: String = numbers(&of.version);
    let other = installed.iter().find(|other| other.name == package);
    let state = |other: &Distribution| PinState::of(&other.version, Ok(numbers(&other.version) == wanted));
    Pin::new(format!("{package}=={wanted}"), package.to_owned(), other.map_or(PinState::Missing, state))
}

/// A requirement on this platform, when a package is installed with these extras; and the extras that it asks for.
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

/// The name at the start of a requirement of pip or conda, as written.
pub(super) fn name(requirement: &str) -> &str {
    requirement.trim_start().split(|c: char| !is_of_name(c)).next().unwrap_or_default()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Whether this can be the name of a package or of an extra.
fn is_name(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(is_of_name)
}

/// A requirement (PEP 508).
struct Parsed<'a> {
    /// The extras that it asks for, normalized: `cublas` of `cuda-toolkit[cublas]`.
    extras: Vec<String>,
    /// The versions that it allows. `None` if it requires the file at an address.
    versions: Option<VersionSpecifiers>,
    marker: Option<&'a str>,
}

impl<'a> Parsed<'a> {
    /// Parses a requirement, in today's syntax or in the old one with parentheses around the versions.
    ///
    /// # Errors
    /// The reason why it is none.
    fn new(text: &'a str) -> Result<Self, String> {
        if text.len() > MAX_LEN {
            return Err("the requirement is longer than any real one".into());
        }
        let name = name(text);
        let rest = text.trim_start().strip_prefix(name).unwrap_or_default().trim_start();
        let (extras, rest) = match rest.strip_prefix('[') {
            Some(after) => after.split_once(']').ok_or("expected `]` after the extras")?,
            None => ("", rest),
        };
        let extras: Vec<&str> = extras.split(',').map(str::trim).filter(|_| !extras.trim().is_empty()).collect();
        if !is_name(name) || !extras.iter().all(|extra| is_name(extra)) {
            return Err("the requirement names no package".into());
        }
        let extras = extras.into_iter().map(normalized).collect();
        if let Some(address) = rest.trim_start().strip_prefix('@') {
            // An address may contain a semicolon; a marker follows a blank.
            let marker = address.trim_start().split_once(char::is_whitespace).map(|(_, rest)| rest.trim_start());
            let marker = marker.and_then(|rest| rest.strip_prefix(';'));
            return Ok(Parsed { extras, versions: None, marker });
        }
        let (versions, marker) = rest.split_once(';').map_or((rest, None), |(rest, marker)| (rest, Some(marker)));
        let versions = match versions.trim().strip_prefix('(') {
            Some(versions) => versions.strip_suffix(')').ok_or("expected `)` after the versions")?,
            None => versions.trim(),
        };
        // The first line states the mistake; the next ones show where it is.
        let explain = |error: String| error.lines().next().unwrap_or_default().to_owned();
        let versions = VersionSpecifiers::from_str(versions).map_err(|error| explain(error.to_string()))?;
        Ok(Parsed { extras, versions: Some(versions), marker })
    }

    /// Whether this version meets it.
    ///
    /// # Errors
    /// The reason why nobody can say.
    fn is_met_by(&self, version: &str) -> Result<bool, String> {
        let versions = self.versions.as_ref().ok_or("it requires the file at an address, in place of a version")?;
        if versions.is_empty() {
            return Ok(true);
        }
        Ok(versions.contains(&installed_version(version)?))
    }
}

/// Parses an installed version.
///
/// # Errors
/// The reason why it cannot be compared.
pub(super) fn installed_version(version: &str) -> Result<Version, String> {
    Version::from_str(version).map_err(|_| format!("the installed version {version} is not a version"))
}

/// The version specifiers of a requirement (`>=9.8,<10`), and whether they allow this version or a newer one. `None`
/// without specifiers, and for text that is no requirement.
pub fn allows_from(requirement: &str, minimum: &str) -> Option<(String, bool)> {
    let specifiers = Parsed::new(requirement).ok()?.versions.filter(|specifiers| !specifiers.is_empty())?;
    let minimum = Version::from_str(minimum).ok()?;
    // If any version is allowed, one of these is: the oldest, one that a specifier names, or one just after those.
    let named = specifiers.iter().map(|specifier| specifier.version().clone());
    let mut versions: Vec<Version> = std::iter::once(minimum.clone()).chain(named).collect();
    let after = |version: &Version| Version::from_str(&format!("{version}.9999")).ok();
    versions.extend(versions.clone().iter().filter_map(after));
    let is_allowed = versions.iter().any(|version| *version >= minimum && specifiers.contains(version));
    let text: Vec<String> = specifiers.iter().map(ToString::to_string).collect();
    Some((text.join(","), is_allowed))
}

/// The numbers of the oldest version that a requirement of pip or conda accepts, if it states one: 9, 10, 2 and 21 of
/// `nvidia-cudnn-cu12==9.10.2.21`.
pub(crate) fn lower_bound(requirement: &str) -> Option<Vec<u32>> {
    let specifiers = requirement.split(';').next()?.strip_prefix(name(requirement))?.replace(['(', ')', ' '], "");
    // An address is no version.
    let mut clauses = specifiers.split(',').filter(|_| !specifiers.starts_with('@'));
    let bound = clauses.find(|clause| clause.starts_with(">=") || !clause.starts_with(['<', '>', '!']))?;
    let numbers = bound.trim_start_matches(['>', '=', '~']).split('.').map_while(|number| number.parse().ok());
    Some(numbers.collect()).filter(|numbers: &Vec<u32>| !numbers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_read_in_every_form() {
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

//! The packages that a package requires (`Requires-Dist`), and whether what is installed meets that. Only packages of
//! CUDA and of the frameworks' own parts count.

mod marker;
mod specifier;

use crate::distribution::{Distribution, normalized};
use crate::environment::Environment;
use crate::metadata;

use specifier::{Parsed, Platform};

/// The package that stands for several of CUDA's; torch 2.11 and later require it in place of them.
const META_PACKAGE: &str = "cuda-toolkit";
/// The most pins of one package. torch has 17.
const MAX_PINS: usize = 256;

/// A requirement of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pin {
    /// As its metadata states it: `nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"`.
    pub requirement: String,
    /// The normalised name of the required package.
    pub package: String,
    /// What is installed.
    pub state: PinState,
    /// The extra that it belongs to (`tensorflow[and-cuda]`), normalised; such a package is required only if one was
    /// asked for, which no file records.
    pub extra: Option<String>,
    /// The package between, whose metadata has the requirement: `cuda-toolkit`.
    pub through: Option<String>,
}

impl Pin {
    /// The start of a requirement that could not be parsed, and the reason. A requirement of the file at an address can be.
    pub(crate) fn unreadable(&self) -> Option<(String, String)> {
        const MAX_CHARS: usize = 80;
        let PinState::Unknown(reason) = &self.state else { return None };
        let cut = |text: &str| {
            let start: String = text.chars().take(MAX_CHARS).collect();
            let dots = if start.len() < text.len() { "..." } else { "" };
            format!("{start}{dots}")
        };
        (!self.requirement.contains('@')).then(|| (cut(&self.requirement), cut(reason)))
    }

    /// The requirement without its marker, as installers take it: `nvidia-cudnn-cu12==9.10.2.21`, or
    /// `nvidia-cudnn-cu12 @ https://example.org/cudnn.whl`.
    #[must_use]
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

/// The version specifiers of a requirement (`>=9.8,<10`), and whether they allow this version or a newer one. `None`
/// without specifiers, and for text that is no requirement.
#[must_use]
pub fn allows_from(requirement: &str, minimum: &str) -> Option<(String, bool)> {
    specifier::allows_from(requirement, minimum)
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

/// Whether requirements of a package with this normalised name concern CUDA.
pub(crate) fn is_cuda(package: &str) -> bool {
    const NAMES: [&str; 4] = ["triton", "pytorch-triton", "jax", "jaxlib"];
    const PREFIXES: [&str; 5] = ["nvidia-", "cuda-", "jax-cuda", "tensorrt", "transformer-engine"];
    NAMES.contains(&package) || PREFIXES.iter().any(|prefix| package.starts_with(prefix))
}

/// The requirements of a package that concern CUDA.
pub(crate) fn pins(of: &Distribution, installed: &[Distribution], environment: &Environment) -> Vec<Pin> {
    let platform = Platform::new(environment.python);
    // Packages whose metadata cannot be read are reported already.
    let requirements = metadata::read(&of.info_dir).unwrap_or_default().requirements;
    let mut pins = Vec::new();
    for requirement in requirements {
        let Some((pin, extras)) = pin(requirement, &platform, installed, &[]) else { continue };
        let meta = installed.iter().find(|package| package.name == META_PACKAGE && pin.package == META_PACKAGE);
        let (extra, is_required) = (pin.extra.clone(), !extras.is_empty());
        pins.push(pin);
        if let Some(meta) = meta.filter(|_| is_required) {
            let below = metadata::read(&meta.info_dir).unwrap_or_default().requirements.into_iter();
            let below = below.filter_map(|requirement| pin_of_extras(requirement, &platform, installed, &extras));
            pins.extend(below.map(|pin| Pin { extra: extra.clone(), through: Some(META_PACKAGE.into()), ..pin }));
        }
    }
    pins.truncate(MAX_PINS);
    pins
}

/// The requirement that a package has the same version, but for what follows the numbers (`.dev20261122`): JAX compares
/// all numbers.
pub(crate) fn same_version(of: &Distribution, package: &str, installed: &[Distribution]) -> Pin {
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = |version: &str| {
        let parts = version.split(['+', '-']).next().unwrap_or_default().split('.').take_while(is_number);
        parts.map(str::to_owned).collect::<Vec<_>>()
    };
    let wanted = numbers(&of.version).join(".");
    let other = installed.iter().find(|other| other.name == package).map(|other| other.version.clone());
    let state = match other {
        Some(found) if numbers(&found).join(".") == wanted => PinState::Met(found),
        Some(found) => PinState::OtherVersion(found),
        None => PinState::Missing,
    };
    Pin { requirement: format!("{package}=={wanted}"), package: package.to_owned(), state, extra: None, through: None }
}

/// A requirement of the meta package that belongs to one of these extras.
fn pin_of_extras(
    requirement: String,
    platform: &Platform,
    installed: &[Distribution],
    extras: &[String],
) -> Option<Pin> {
    let (pin, _) = pin(requirement, platform, installed, extras)?;
    pin.extra.is_none().then_some(pin)
}

/// A requirement on this platform, when a package is installed with these extras; and the extras that it asks for.
fn pin(
    requirement: String,
    platform: &Platform,
    installed: &[Distribution],
    extras: &[String],
) -> Option<(Pin, Vec<String>)> {
    let package = normalized(specifier::name(&requirement));
    if !is_cuda(&package) {
        return None;
    }
    let (state, extra, asked) = match Parsed::new(&requirement) {
        Ok(parsed) => {
            let extra = if platform.applies(&parsed, extras) { None } else { Some(platform.extra_of(&parsed)?) };
            let installed = installed.iter().find(|other| other.name == package);
            let state = installed.map_or(PinState::Missing, |other| match parsed.is_met_by(&other.version) {
                Ok(true) => PinState::Met(other.version.clone()),
                Ok(false) => PinState::OtherVersion(other.version.clone()),
                Err(reason) => PinState::Unknown(reason),
            });
            (state, extra, parsed.extras())
        }
        Err(reason) => (PinState::Unknown(reason), None, Vec::new()),
    };
    Some((Pin { requirement, package, state, extra, through: None }, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_allows_newer_versions_or_forbids_them() {
        for (requirement, minimum, expected) in [
            ("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"", "9.15.1", Some(("==9.10.2.21", false))),
            ("nvidia-cudnn-cu12==9.19.0.56", "9.15.1", Some(("==9.19.0.56", true))),
            ("nvidia-cudnn-cu12 (>=9.8,<10)", "9.15.1", Some((">=9.8,<10", true))),
            ("nvidia-cudnn-cu12<9.11", "9.15.1", Some(("<9.11", false))),
            ("nvidia-cudnn-cu12>9.15.1,<9.16", "9.15.1", Some((">9.15.1,<9.16", true))),
            ("nvidia-cudnn-cu12", "9.15.1", None),
            ("nvidia-cudnn-cu12 @ https://example.org/x.whl", "9.15.1", None),
            ("(", "9", None),
        ] {
            let found = allows_from(requirement, minimum);
            let found = found.as_ref().map(|(text, is_allowed)| (text.replace(' ', ""), *is_allowed));
            let expected = expected.map(|(text, is_allowed)| (text.to_owned(), is_allowed));
            assert_eq!(found, expected, "{requirement}");
        }
    }

    #[test]
    fn a_requirement_is_complete_without_its_marker() {
        for (requirement, expected) in [
            ("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"", "nvidia-cudnn-cu12==9.10.2.21"),
            ("nvidia-cudnn-cu12 (==8.9.2.26) ; os_name == 'posix'", "nvidia-cudnn-cu12==8.9.2.26"),
            ("nvidia-cudnn-cu12 (>=9.1, <10)", "nvidia-cudnn-cu12>=9.1,<10"),
            ("cuda-toolkit[cublas,cudart]==13.2.2", "cuda-toolkit[cublas,cudart]==13.2.2"),
            ("a @ https://example.org/a(1);b.whl#x=(y)", "a @ https://example.org/a(1);b.whl#x=(y)"),
            ("a[x]@https://example.org/a.whl ; os_name == 'posix'", "a[x] @ https://example.org/a.whl"),
        ] {
            let (package, state) = ("a".into(), PinState::Missing);
            let pin = Pin { requirement: requirement.into(), package, state, extra: None, through: None };
            assert_eq!(pin.without_marker(), expected);
        }
    }
}

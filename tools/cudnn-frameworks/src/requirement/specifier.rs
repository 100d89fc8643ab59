//! One requirement (PEP 508), its version specifiers (PEP 440) and its marker. Guards the libraries that know these
//! standards from text that nobody wrote as a requirement: they recurse into parentheses, and a marker's size may grow
//! exponentially with its operators.

use std::str::FromStr;

use cudnn_probe::Architecture;
use pep508_rs::pep440_rs::Version;
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerEnvironmentBuilder, Requirement, VerbatimUrl, VersionOrUrl};

/// The most bytes of a requirement, parentheses that it opens, and operators of its marker. Real ones have up to 250
/// bytes, 4 and 6.
const MAX_LEN: usize = 4 << 10;
const MAX_PARENTHESES: usize = 16;
const MAX_OPERATORS: usize = 16;
/// The Python of an environment that states none.
const DEFAULT_PYTHON: (u32, u32) = (3, 12);

/// The name at the start of a requirement, as written.
pub(super) fn name(requirement: &str) -> &str {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    requirement.trim_start().split(is_end).next().unwrap_or_default()
}

/// Whether this can be the name of a package or of an extra.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_end(bytes.first()) && is_end(bytes.last()) && text.bytes().all(is_inner)
}

/// A requirement.
pub(super) struct Parsed {
    requirement: Requirement<VerbatimUrl>,
    /// The extras that its marker names.
    named_extras: Vec<ExtraName>,
}

impl Parsed {
    /// Parses a requirement, in today's syntax or in the old one with parentheses around the versions.
    ///
    /// # Errors
    /// The reason why it is none.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let marker = text.split_once(';').map_or("", |(_, marker)| marker);
        let operators = marker.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| matches!(*word, "and" | "or"));
        if text.len() > MAX_LEN || text.matches('(').count() > MAX_PARENTHESES || operators.count() > MAX_OPERATORS {
            return Err("the requirement is longer than any real one".into());
        }
        // The library panics where its parser accepts a name that its type does not: `nvidia-`.
        let extras = text.split_once('[').and_then(|(_, after)| after.split_once(']')).map_or("", |(extras, _)| extras);
        if !is_name(name(text)) || !extras.split(',').all(|extra| extra.trim().is_empty() || is_name(extra.trim())) {
            return Err("the requirement names no package".into());
        }
        let parsed = std::panic::catch_unwind(|| Requirement::from_str(text));
        let parsed = parsed.map_err(|_| "the requirement cannot be parsed".to_owned())?;
        // The first line states the mistake; the next ones show where it is.
        let explain = |error: String| error.lines().next().unwrap_or_default().to_owned();
        let requirement = parsed.map_err(|error| explain(error.to_string()))?;
        Ok(Parsed { requirement, named_extras: named_extras(marker) })
    }

    /// The extras that it asks for: `cublas` of `cuda-toolkit[cublas]`.
    pub(super) fn extras(&self) -> Vec<String> {
        self.requirement.extras.iter().map(ToString::to_string).collect()
    }

    /// Whether this version meets it.
    ///
    /// # Errors
    /// The reason why nobody can say.
    pub(super) fn is_met_by(&self, version: &str) -> Result<bool, String> {
        let parsed =
            || Version::from_str(version).map_err(|_| format!("the installed version {version} is not a version"));
        match &self.requirement.version_or_url {
            None => Ok(true),
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Ok(specifiers.contains(&parsed()?)),
            Some(VersionOrUrl::Url(_)) => Err("it requires the file at an address, in place of a version".into()),
        }
    }
}

/// The version specifiers of a requirement (`>=9.8,<10`), and whether they allow this version or a newer one.
pub(super) fn allows_from(requirement: &str, minimum: &str) -> Option<(String, bool)> {
    let parsed = Parsed::new(requirement).ok()?;
    let minimum = Version::from_str(minimum).ok()?;
    let specifiers = match parsed.requirement.version_or_url? {
        VersionOrUrl::VersionSpecifier(specifiers) => specifiers,
        VersionOrUrl::Url(_) => return None,
    };
    // If any version is allowed, one of these is: the oldest, one that a specifier names, or one just after those.
    let named = specifiers.iter().map(|specifier| specifier.version().clone());
    let mut versions: Vec<Version> = std::iter::once(minimum.clone()).chain(named).collect();
    let after = |version: &Version| Version::from_str(&format!("{version}.9999")).ok();
    versions.extend(versions.clone().iter().filter_map(after));
    let is_allowed = versions.iter().any(|version| *version >= minimum && specifiers.contains(version));
    let text: Vec<String> = specifiers.iter().map(ToString::to_string).collect();
    Some((text.join(","), is_allowed))
}

/// The extras in a marker: `extra == "and-cuda"`.
fn named_extras(marker: &str) -> Vec<ExtraName> {
    let after = marker.split("extra").skip(1);
    let name = |after: &str| {
        let quoted = after.trim_start().strip_prefix("==")?.trim_start();
        let quote = quoted.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        ExtraName::from_str(quoted.get(1..)?.split(quote).next()?).ok()
    };
    after.filter_map(name).collect()
}

/// What markers ask for.
pub(super) struct Platform(Option<MarkerEnvironment>);

impl Platform {
    /// Linux on this processor, with this Python.
    pub(super) fn new(python: Option<(u32, u32)>) -> Self {
        let (major, minor) = python.unwrap_or(DEFAULT_PYTHON);
        let version = format!("{major}.{minor}");
        let full_version = format!("{version}.0");
        let machine = if Architecture::HOST == Architecture::AARCH64 { "aarch64" } else { "x86_64" };
        let builder = MarkerEnvironmentBuilder {
            implementation_name: "cpython",
            implementation_version: &full_version,
            os_name: "posix",
            platform_machine: machine,
            platform_python_implementation: "CPython",
            platform_release: "",
            platform_system: "Linux",
            platform_version: "",
            python_full_version: &full_version,
            python_version: &version,
            sys_platform: "linux",
        };
        Platform(MarkerEnvironment::try_from(builder).ok())
    }

    /// Whether a requirement applies when its package was installed with these extras.
    pub(super) fn applies(&self, parsed: &Parsed, extras: &[String]) -> bool {
        let extras: Vec<ExtraName> = extras.iter().filter_map(|extra| ExtraName::from_str(extra).ok()).collect();
        self.holds(parsed, &extras)
    }

    /// The extra with which a requirement applies, if there is one.
    pub(super) fn extra_of(&self, parsed: &Parsed) -> Option<String> {
        let mut named = parsed.named_extras.iter();
        named.find(|extra| self.holds(parsed, std::slice::from_ref(extra))).map(ToString::to_string)
    }

    fn holds(&self, parsed: &Parsed, extras: &[ExtraName]) -> bool {
        self.0.as_ref().is_none_or(|environment| parsed.requirement.evaluate_markers(environment, extras))
    }
}

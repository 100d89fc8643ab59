//! One requirement (PEP 508), its version specifiers (PEP 440) and its marker. Bounds the work for text that nobody wrote
//! as a requirement: parentheses recurse.

use std::str::FromStr;

use cudnn_probe::Architecture;
use pep440_rs::{Version, VersionSpecifiers};

use super::marker::Marker;
use crate::distribution::normalized;

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
    /// Normalized.
    extras: Vec<String>,
    versions: Versions,
    marker: Option<Marker>,
}

/// The versions that a requirement allows.
enum Versions {
    Any,
    Specifiers(VersionSpecifiers),
    /// The one in the file at an address.
    Address,
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
        let (versions, rest) = versions(rest.trim_start())?;
        let marker = match (rest.trim_start(), rest.trim_start().strip_prefix(';')) {
            ("", _) => None,
            (_, Some(marker)) => Some(Marker::parse(marker)?),
            (rest, None) => return Err(format!("expected versions or a marker, found `{rest}`")),
        };
        Ok(Parsed { extras: extras.into_iter().map(normalized).collect(), versions, marker })
    }

    /// The extras that it asks for: `cublas` of `cuda-toolkit[cublas]`.
    pub(super) fn extras(&self) -> Vec<String> {
        self.extras.clone()
    }

    /// Whether this version meets it.
    ///
    /// # Errors
    /// The reason why nobody can say.
    pub(super) fn is_met_by(&self, version: &str) -> Result<bool, String> {
        let parsed =
            || Version::from_str(version).map_err(|_| format!("the installed version {version} is not a version"));
        match &self.versions {
            Versions::Any => Ok(true),
            Versions::Specifiers(specifiers) => Ok(specifiers.contains(&parsed()?)),
            Versions::Address => Err("it requires the file at an address, in place of a version".into()),
        }
    }
}

/// The versions at the start of this text, and what follows them.
fn versions(text: &str) -> Result<(Versions, &str), String> {
    if let Some(address) = text.strip_prefix('@') {
        let address = address.trim_start();
        let end = address.find(char::is_whitespace).unwrap_or(address.len());
        let rest = address.get(end..).unwrap_or_default();
        return if end == 0 { Err("expected an address after `@`".into()) } else { Ok((Versions::Address, rest)) };
    }
    let (specifiers, rest) = match text.strip_prefix('(') {
        Some(after) => after.split_once(')').ok_or("expected `)` after the versions")?,
        None => text.split_at(text.find(';').unwrap_or(text.len())),
    };
    if specifiers.is_empty() && !text.starts_with('(') {
        return Ok((Versions::Any, rest));
    }
    let is_complete = specifiers.split(',').all(|specifier| !specifier.trim().is_empty());
    // The first line states the mistake; the next ones show where it is.
    let explain = |error: String| error.lines().next().unwrap_or_default().to_owned();
    let parsed = VersionSpecifiers::from_str(specifiers).map_err(|error| explain(error.to_string()))?;
    if is_complete { Ok((Versions::Specifiers(parsed), rest)) } else { Err("expected versions".into()) }
}

/// The version specifiers of a requirement (`>=9.8,<10`), and whether they allow this version or a newer one.
pub(super) fn allows_from(requirement: &str, minimum: &str) -> Option<(String, bool)> {
    let parsed = Parsed::new(requirement).ok()?;
    let minimum = Version::from_str(minimum).ok()?;
    let Versions::Specifiers(specifiers) = parsed.versions else { return None };
    // If any version is allowed, one of these is: the oldest, one that a specifier names, or one just after those.
    let named = specifiers.iter().map(|specifier| specifier.version().clone());
    let mut versions: Vec<Version> = std::iter::once(minimum.clone()).chain(named).collect();
    let after = |version: &Version| Version::from_str(&format!("{version}.9999")).ok();
    versions.extend(versions.clone().iter().filter_map(after));
    let is_allowed = versions.iter().any(|version| *version >= minimum && specifiers.contains(version));
    let text: Vec<String> = specifiers.iter().map(ToString::to_string).collect();
    Some((text.join(","), is_allowed))
}

/// The values of the variables of markers.
pub(super) struct Platform {
    python_version: String,
    python_full_version: String,
}

impl Platform {
    /// Linux on this processor, with this Python.
    pub(super) fn new(python: Option<(u32, u32)>) -> Self {
        let (major, minor) = python.unwrap_or(DEFAULT_PYTHON);
        Platform { python_version: format!("{major}.{minor}"), python_full_version: format!("{major}.{minor}.0") }
    }

    fn value(&self, variable: &str) -> Option<&str> {
        Some(match variable {
            "implementation_name" => "cpython",
            "implementation_version" | "python_full_version" => &self.python_full_version,
            "os_name" => "posix",
            "platform_machine" if Architecture::HOST == Architecture::AARCH64 => "aarch64",
            "platform_machine" => "x86_64",
            "platform_python_implementation" => "CPython",
            "platform_release" | "platform_version" => "",
            "platform_system" => "Linux",
            "python_version" => &self.python_version,
            "sys_platform" => "linux",
            _ => return None,
        })
    }

    /// Whether a requirement applies when its package was installed with these normalized extras.
    pub(super) fn applies(&self, parsed: &Parsed, extras: &[String]) -> bool {
        let evaluate = |marker: &Marker| marker.evaluate(&|variable| self.value(variable), extras);
        parsed.marker.as_ref().and_then(evaluate).unwrap_or(true)
    }

    /// The extra with which a requirement applies, if there is one.
    pub(super) fn extra_of(&self, parsed: &Parsed) -> Option<String> {
        let mut named = Vec::new();
        parsed.marker.as_ref()?.collect_extras(&mut named);
        named.into_iter().find(|extra| self.applies(parsed, std::slice::from_ref(extra)))
    }
}

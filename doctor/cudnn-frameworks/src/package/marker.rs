//! Evaluates environment markers (PEP 508), for example `python_version < "3.13"`.

use std::str::FromStr;

use cudnn_probe::python::setting;
use cudnn_probe::{Architecture, Os};
use pep440_rs::{Version, VersionSpecifier};

use super::names::normalized;
use crate::environment::Environment;

/// The default for an unknown Python version.
const DEFAULT_PYTHON: (u32, u32) = (3, 12);
const EXTRA: &str = "extra";

/// The values of the variables in markers, which describe the Python of an environment.
pub struct Platform {
    os: Os,
    python_version: String,
    python_full_version: String,
}

impl Platform {
    /// Returns the platform of this environment's Python.
    pub fn of(environment: &Environment) -> Self {
        let stated =
            ["version", "version_info"].iter().find_map(|name| setting(&environment.root, name)?.into_string().ok());
        Platform::new(environment.os, environment.python, stated.as_deref())
    }

    /// Returns the platform of a Python for this system. `stated` is the full version in the environment's settings.
    pub(super) fn new(os: Os, python: Option<(u32, u32)>, stated: Option<&str>) -> Self {
        // virtualenv writes `3.12.1.final.0`.
        let stated = stated.map(|stated| stated.split('.').take(3).collect::<Vec<_>>().join("."));
        let of_stated = || {
            let mut parts = stated.as_ref()?.split('.').map(|part| part.parse().ok());
            Some((parts.next()??, parts.next()??))
        };
        let (major, minor) = python.or_else(of_stated).unwrap_or(DEFAULT_PYTHON);
        let python_version = format!("{major}.{minor}");
        let stated = stated.filter(|stated| stated.starts_with(&format!("{python_version}.")));
        let python_full_version = stated.unwrap_or_else(|| format!("{python_version}.0"));
        Platform { os, python_version, python_full_version }
    }

    fn value(&self, variable: &str) -> Option<(&str, bool)> {
        let is_arm = Architecture::HOST == Architecture::AARCH64;
        let by_os = |windows, linux| if self.os == Os::Windows { windows } else { linux };
        let text = match variable {
            "python_version" => return Some((&self.python_version, true)),
            "implementation_version" | "python_full_version" => return Some((&self.python_full_version, true)),
            "implementation_name" => "cpython",
            "os_name" => by_os("nt", "posix"),
            "platform_machine" if is_arm => by_os("ARM64", "aarch64"),
            "platform_machine" => by_os("AMD64", "x86_64"),
            "platform_python_implementation" => "CPython",
            "platform_release" | "platform_version" => "",
            "platform_system" => by_os("Windows", "Linux"),
            "sys_platform" => by_os("win32", "linux"),
            _ => return None,
        };
        Some((text, false))
    }
}

/// The platform of the Python that is most likely on this system.
impl Default for Platform {
    fn default() -> Self {
        Platform::new(Os::HOST, None, None)
    }
}

/// The condition under which a requirement applies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    /// Only with this normalized extra.
    With(String),
    Never,
}

/// Returns when a requirement's marker applies to a package that is installed with these normalized extras. An error
/// means that the text is not a marker.
pub(super) fn condition(text: &str, platform: &Platform, extras: &[String]) -> Result<Condition, &'static str> {
    let (holds, named) = evaluate(text, platform, extras).ok_or("its marker cannot be parsed")?;
    if holds != Some(false) {
        return Ok(Condition::Always);
    }
    let with = |extra: &String| evaluate(text, platform, std::slice::from_ref(extra));
    let extra = named.into_iter().find(|extra| with(extra).is_some_and(|(holds, _)| holds == Some(true)));
    Ok(extra.map_or(Condition::Never, Condition::With))
}

/// Evaluates a marker. Returns the result and the extras in the marker. An invalid comparison such as `os_name ~= "x"`
/// is `None`, which `and` and `or` ignore.
fn evaluate(text: &str, platform: &Platform, extras: &[String]) -> Option<(Option<bool>, Vec<String>)> {
    let mut parser = Parser { rest: text, platform, extras, named: Vec::new() };
    let holds = parser.any().filter(|_| parser.rest.trim_start().is_empty())?;
    Some((holds, parser.named))
}

/// A recursive descent parser that evaluates while it parses. Methods return `None` for invalid markers.
struct Parser<'a> {
    rest: &'a str,
    platform: &'a Platform,
    extras: &'a [String],
    named: Vec<String>,
}

enum Operand<'a> {
    Variable(&'a str),
    Text(&'a str),
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Option<Option<bool>> {
        let mut holds = self.all()?;
        while self.take_word("or") {
            holds = [holds, self.all()?].into_iter().flatten().reduce(|a, b| a || b);
        }
        Some(holds)
    }

    fn all(&mut self) -> Option<Option<bool>> {
        let mut holds = self.term()?;
        while self.take_word("and") {
            holds = [holds, self.term()?].into_iter().flatten().reduce(|a, b| a && b);
        }
        Some(holds)
    }

    fn term(&mut self) -> Option<Option<bool>> {
        if self.take("(") {
            return self.any().filter(|_| self.take(")"));
        }
        let (left, operator, right) = (self.operand()?, self.operator()?, self.operand()?);
        Some(match (left, right) {
            (Operand::Variable(name), Operand::Text(text)) => self.compare(name, operator, text, false),
            (Operand::Text(text), Operand::Variable(name)) => self.compare(name, operator, text, true),
            _ => None,
        })
    }

    /// `is_reversed` means that the text is on the left.
    fn compare(&mut self, variable: &str, operator: &str, text: &str, is_reversed: bool) -> Option<bool> {
        if variable == EXTRA {
            let extra = normalized(text);
            let is_asked = self.extras.contains(&extra);
            return match operator {
                "==" => {
                    self.named.push(extra);
                    Some(is_asked)
                }
                "!=" => Some(!is_asked),
                _ => None,
            };
        }
        let (value, is_version) = self.platform.value(variable)?;
        if is_version && !operator.ends_with("in") {
            let operator = match operator {
                "<" if is_reversed => ">",
                "<=" if is_reversed => ">=",
                ">" if is_reversed => "<",
                ">=" if is_reversed => "<=",
                other => other,
            };
            let specifier = VersionSpecifier::from_str(&format!("{operator}{text}")).ok()?;
            return Some(specifier.contains(&Version::from_str(value).ok()?));
        }
        let (left, right) = if is_reversed { (text, value) } else { (value, text) };
        match operator {
            "==" => Some(left == right),
            "!=" => Some(left != right),
            "<" => Some(left < right),
            "<=" => Some(left <= right),
            ">" => Some(left > right),
            ">=" => Some(left >= right),
            "in" => Some(right.contains(left)),
            "not in" => Some(!right.contains(left)),
            _ => None,
        }
    }

    fn operand(&mut self) -> Option<Operand<'a>> {
        for quote in ["\"", "'"] {
            if self.take(quote) {
                let (text, rest) = self.rest.split_once(quote)?;
                self.rest = rest;
                return Some(Operand::Text(text));
            }
        }
        let name = self.take_while(|c| !c.is_whitespace() && !">=<!~()".contains(c));
        let is_variable = name == EXTRA || self.platform.value(name).is_some();
        is_variable.then_some(Operand::Variable(name))
    }

    fn operator(&mut self) -> Option<&'a str> {
        if self.take_word("in") {
            return Some("in");
        }
        if self.take_word("not") {
            return self.take_word("in").then_some("not in");
        }
        let found = self.take_while(|c| "=!<>~".contains(c));
        ["==", "!=", "<=", ">=", "~=", "<", ">"].contains(&found).then_some(found)
    }

    /// Skips white space and this text, if it is next.
    fn take(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.strip_prefix(text).inspect(|rest| self.rest = rest).is_some()
    }

    fn take_word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let is_word = self.take(word) && !self.rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if !is_word {
            self.rest = before;
        }
        is_word
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest.trim_start();
        let (taken, rest) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests;

//! Parses and evaluates environment markers (PEP 508): `python_version < "3.13" and extra == "and-cuda"`.
//! A comparison without a meaning, such as `os_name ~= "x"`, is ignored: it changes no `and` and no `or`.

use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifier};

use crate::distribution::normalized;

/// The variables that are compared as versions.
const VERSIONS: [&str; 3] = ["implementation_version", "python_full_version", "python_version"];
/// The variables that are compared as strings.
const STRINGS: [&str; 8] = [
    "implementation_name",
    "os_name",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "sys_platform",
];
/// The variable that names an extra.
const EXTRA: &str = "extra";

/// A parsed marker.
pub(super) enum Marker {
    All(Vec<Marker>),
    Any(Vec<Marker>),
    Comparison(Comparison),
    /// A comparison of two variables, or of two strings.
    Ignored,
}

/// A variable and the string that it is compared with.
pub(super) struct Comparison {
    variable: String,
    operator: &'static str,
    text: String,
}

/// One side of a comparison.
enum Operand {
    Variable(String),
    Text(String),
}

impl Marker {
    /// Parses the text after the semicolon of a requirement. It recurses into parentheses.
    ///
    /// # Errors
    /// The reason why the text is not a marker.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text };
        let marker = parser.any()?;
        match parser.rest.trim_start() {
            "" => Ok(marker),
            rest => Err(format!("expected `and`, `or` or the end of the marker, found `{rest}`")),
        }
    }

    /// Whether the marker holds with these values of variables and these normalized extras. `None` if all of it is
    /// ignored.
    pub(super) fn evaluate<'a>(&self, value: &impl Fn(&str) -> Option<&'a str>, extras: &[String]) -> Option<bool> {
        match self {
            Marker::All(markers) => {
                markers.iter().filter_map(|marker| marker.evaluate(value, extras)).reduce(|a, b| a && b)
            }
            Marker::Any(markers) => {
                markers.iter().filter_map(|marker| marker.evaluate(value, extras)).reduce(|a, b| a || b)
            }
            Marker::Comparison(comparison) => comparison.evaluate(value, extras),
            Marker::Ignored => None,
        }
    }

    /// Adds the extras that the marker names, normalized.
    pub(super) fn collect_extras(&self, extras: &mut Vec<String>) {
        match self {
            Marker::All(markers) | Marker::Any(markers) => {
                markers.iter().for_each(|marker| marker.collect_extras(extras));
            }
            Marker::Comparison(Comparison { variable, operator: "==", text }) if variable == EXTRA => {
                extras.push(normalized(text));
            }
            Marker::Comparison(_) | Marker::Ignored => {}
        }
    }
}

impl Comparison {
    fn evaluate<'a>(&self, value: &impl Fn(&str) -> Option<&'a str>, extras: &[String]) -> Option<bool> {
        let (operator, text) = (self.operator, self.text.as_str());
        if self.variable == EXTRA {
            let is_asked = extras.contains(&normalized(text));
            return match operator {
                "==" => Some(is_asked),
                "!=" => Some(!is_asked),
                _ => None,
            };
        }
        let value = value(&self.variable)?;
        if VERSIONS.contains(&self.variable.as_str()) {
            let version = Version::from_str(value).ok()?;
            return match operator {
                "in" | "not in" => {
                    let listed: Result<Vec<Version>, _> = text.split_whitespace().map(Version::from_str).collect();
                    Some(listed.ok()?.contains(&version) == (operator == "in"))
                }
                _ => Some(VersionSpecifier::from_str(&format!("{operator}{text}")).ok()?.contains(&version)),
            };
        }
        match operator {
            "==" => Some(value == text),
            "!=" => Some(value != text),
            "<" => Some(value < text),
            "<=" => Some(value <= text),
            ">" => Some(value > text),
            ">=" => Some(value >= text),
            "in" => Some(text.contains(value)),
            "not in" => Some(!text.contains(value)),
            "contains" => Some(value.contains(text)),
            "not contains" => Some(!value.contains(text)),
            _ => None,
        }
    }
}

/// The operator with its sides exchanged. Markers have no `contains` of their own.
fn exchanged(operator: &'static str) -> &'static str {
    match operator {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        "in" => "contains",
        "not in" => "not contains",
        other => other,
    }
}

/// The variable with this name, of which old metadata has others.
fn variable(name: &str) -> Option<String> {
    let name = match name {
        "python_implementation" => "platform_python_implementation".to_owned(),
        "os.name" | "sys.platform" | "platform.version" | "platform.machine" | "platform.python_implementation" => {
            name.replace('.', "_")
        }
        _ => name.to_owned(),
    };
    let is_known = name == EXTRA || VERSIONS.contains(&name.as_str()) || STRINGS.contains(&name.as_str());
    is_known.then_some(name)
}

/// A recursive descent parser.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Marker, String> {
        let mut markers = vec![self.all()?];
        while self.take_word("or") {
            markers.push(self.all()?);
        }
        Ok(Marker::Any(markers))
    }

    fn all(&mut self) -> Result<Marker, String> {
        let mut markers = vec![self.term()?];
        while self.take_word("and") {
            markers.push(self.term()?);
        }
        Ok(Marker::All(markers))
    }

    fn term(&mut self) -> Result<Marker, String> {
        if !self.take("(") {
            return self.comparison();
        }
        let marker = self.any()?;
        if self.take(")") { Ok(marker) } else { Err("expected `)` in the marker".into()) }
    }

    fn comparison(&mut self) -> Result<Marker, String> {
        let (left, operator, right) = (self.operand()?, self.operator()?, self.operand()?);
        Ok(match (left, right) {
            (Operand::Variable(variable), Operand::Text(text)) => {
                Marker::Comparison(Comparison { variable, operator, text })
            }
            (Operand::Text(text), Operand::Variable(variable)) => {
                Marker::Comparison(Comparison { variable, operator: exchanged(operator), text })
            }
            _ => Marker::Ignored,
        })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        for quote in ['"', '\''] {
            if self.take(quote.encode_utf8(&mut [0; 4])) {
                let (text, rest) = self.rest.split_once(quote).ok_or("expected a closing quote in the marker")?;
                self.rest = rest;
                return Ok(Operand::Text(text.to_owned()));
            }
        }
        let name = self.take_while(|c| !c.is_whitespace() && !">=<!~()".contains(c));
        let variable = variable(name);
        variable
            .map(Operand::Variable)
            .ok_or_else(|| format!("expected a string or a variable of markers, found `{name}`"))
    }

    fn operator(&mut self) -> Result<&'static str, String> {
        const OPERATORS: [&str; 7] = ["==", "!=", "<=", ">=", "~=", "<", ">"];
        if self.take_word("in") {
            return Ok("in");
        }
        if self.take_word("not") {
            return if self.take_word("in") { Ok("not in") } else { Err("expected `in` after `not`".into()) };
        }
        let found = self.take_while(|c| "=!<>~".contains(c));
        let operator = OPERATORS.into_iter().find(|operator| *operator == found);
        operator.ok_or_else(|| format!("expected an operator of markers, found `{found}`"))
    }

    /// Skips white space, then takes this text if it is next.
    fn take(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.strip_prefix(text).inspect(|rest| self.rest = rest).is_some()
    }

    /// Takes a word that ends there.
    fn take_word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let is_word = self.take(word) && !self.rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if !is_word {
            self.rest = before;
        }
        is_word
    }

    /// Skips white space, then takes all characters of a kind.
    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (taken, rest) = rest.split_at(end);
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(marker: &str, extras: &[&str]) -> Option<bool> {
        let value = |name: &str| match name {
            "python_version" => Some("3.12"),
            "python_full_version" => Some("3.12.0"),
            "os_name" => Some("posix"),
            "sys_platform" => Some("linux"),
            "platform_python_implementation" => Some("CPython"),
            _ => Some(""),
        };
        let extras: Vec<String> = extras.iter().map(|extra| (*extra).to_owned()).collect();
        Marker::parse(marker).unwrap().evaluate(&value, &extras)
    }

    #[test]
    fn versions_strings_and_extras_are_compared() {
        for (marker, expected) in [
            ("python_version < '3.9'", Some(false)),
            ("python_version<'3.13'", Some(true)),
            ("python_version >= \"3.9\" and python_version < \"3.12\"", Some(false)),
            ("'3.9' < python_version", Some(true)),
            ("python_version == '3.*'", Some(true)),
            ("python_version ~= '3.10'", Some(true)),
            ("python_version in '3.11 3.12'", Some(true)),
            ("python_version not in '3.11, 3.12'", None),
            ("python_full_version > '3.11.9'", Some(true)),
            ("sys_platform == 'linux' or sys_platform == 'win32' and os_name == 'nt'", Some(true)),
            ("(sys_platform == 'linux' or sys_platform == 'win32') and os_name == 'nt'", Some(false)),
            ("sys_platform in 'linux darwin'", Some(true)),
            ("'nux' in sys_platform", Some(true)),
            ("'win' not in sys_platform", Some(true)),
            ("platform.python_implementation == 'CPython'", Some(true)),
            ("python_implementation != 'CPython'", Some(false)),
            ("extra == 'And_Cuda'", Some(true)),
            ("'and-cuda' == extra", Some(true)),
            ("extra != 'and.cuda'", Some(false)),
            ("extra == 'x'", Some(false)),
            ("'a' == 'a'", None),
            ("os_name == sys_platform", None),
            ("os_name ~= 'posix' and extra == 'x'", Some(false)),
            ("python_version < 'x' or extra == 'x'", Some(false)),
        ] {
            assert_eq!(evaluate(marker, &["and-cuda"]), expected, "{marker}");
        }
    }

    #[test]
    fn what_is_no_marker_is_an_error() {
        for marker in [
            "",
            "nonsense == 'x'",
            "os_name",
            "os_name ==",
            "os_name === 'x'",
            "os_name == 'x",
            "os_name not 'x'",
            "os_name inside 'x'",
            "(os_name == 'x'",
            "os_name == 'x')",
            "os_name == 'x' and",
            "os_name == 'x' xor os_name == 'y'",
            "\u{1b}[31m",
        ] {
            assert!(Marker::parse(marker).is_err(), "{marker}");
        }
    }
}

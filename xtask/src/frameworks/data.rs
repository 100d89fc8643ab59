//! Parses the file with facts about framework releases, and writes it with one line per row.

use std::io::Write;

use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};

use crate::error::Result;

/// The file, in the workspace.
pub(crate) const FILE: &str = "doctor/cudnn-frameworks/data/frameworks.json";
/// The `evidence` of facts that this program can determine by itself.
pub(crate) const METADATA: &str = "metadata";

/// The sections of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    pub(crate) newest: Vec<Newest>,
    pub(crate) facts: Vec<Fact>,
}

/// The newest release of a package that the facts describe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Newest {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) url: String,
    pub(crate) date: String,
}

/// The build targets of a package's releases, starting with one release.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    pub(crate) package: String,
    pub(crate) since: String,
    pub(crate) cudnn: Option<String>,
    pub(crate) cuda: Option<String>,
    pub(crate) evidence: String,
    pub(crate) url: String,
    pub(crate) date: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl Data {
    pub(crate) fn parse(text: &str) -> Result<Data> {
        Ok(serde_json::from_str(text).map_err(|error| format!("cannot read {FILE}: {error}"))?)
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> Result<String> {
        let sections = [section("newest", &self.newest)?, section("facts", &self.facts)?];
        Ok(format!("{{\n{}\n}}\n", sections.join(",\n")))
    }

    /// Returns the fact about the newest releases of a package.
    pub(crate) fn last_fact(&self, package: &str) -> Option<&Fact> {
        self.facts.iter().rfind(|fact| fact.package == package)
    }
}

fn section(name: &str, rows: &[impl Serialize]) -> Result<String> {
    let lines: Result<Vec<String>> = rows.iter().map(|row| Ok(format!("    {}", line(row)?))).collect();
    Ok(format!("  \"{name}\": [\n{}\n  ]", lines?.join(",\n")))
}

fn line(row: &impl Serialize) -> Result<String> {
    let mut bytes = Vec::new();
    row.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine))?;
    Ok(String::from_utf8(bytes)?)
}

/// Formats JSON in one line, with blanks after commas and colons.
struct OneLine;

impl Formatter for OneLine {
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_file_is_up_to_date() {
        let text = include_str!("../../../doctor/cudnn-frameworks/data/frameworks.json");
        assert_eq!(Data::parse(text).unwrap().text().unwrap(), text);
    }
}

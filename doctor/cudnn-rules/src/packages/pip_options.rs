//! Reads the options of pip in configuration files and variables.

mod formats;
mod option;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cudnn_probe::{Os, facts};

use super::decision_file::contents;
use super::settings::pip_settings;
pub(super) use formats::Formats;
pub(super) use option::{PipCommand, PipOption};

const PREFIX: &str = "PIP_";

/// A variable of pip that is not an option.
const CONFIG_FILE: &str = "PIP_CONFIG_FILE";

/// Without an index, pip may install from places that `find-links` names.
pub(super) const NO_INDEX: &str = "no-index";

/// The names and values by section of a configuration file.
type Sections = BTreeMap<String, Vec<(String, String)>>;

pub(super) struct PipSettings {
    files: Vec<(PathBuf, Sections)>,
    /// A file that makes pip fail, and the reason as a predicate.
    pub(super) refused: Option<(PathBuf, String)>,
}

impl PipSettings {
    pub(super) fn read(prefix: Option<&Path>) -> PipSettings {
        let mut settings = PipSettings { files: Vec::new(), refused: None };
        for file in pip_settings(prefix) {
            // pip ignores unreadable files.
            let bytes = contents(&file).ok().flatten().unwrap_or_default();
            match String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned()).and_then(|text| sections(&text)) {
                Ok(sections) => settings.files.push((file, sections)),
                Err(reason) => settings.refused = Some((file, reason)),
            }
        }
        settings
    }

    /// Returns the options of a command. Later files take precedence, then the sections of commands over `[global]`,
    /// then variables. Redirecting variables only count where the commands cannot unset them.
    pub(super) fn options(&self, command: PipCommand) -> Vec<PipOption> {
        self.options_on(Os::HOST, command)
    }

    fn options_on(&self, os: Os, command: PipCommand) -> Vec<PipOption> {
        let all = self.in_order(os, command).into_iter().filter(|option| !option.value.is_empty());
        let all = all.map(|option| ((option.name.clone(), option.is_ignored()), option));
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Returns for which packages `pip install` uses wheels.
    pub(super) fn formats(&self) -> Formats {
        let mut formats = Formats::default();
        let all = self.in_order(Os::HOST, PipCommand::Install).into_iter();
        all.filter(|option| !option.value.is_empty()).for_each(|option| formats.apply(&option));
        formats
    }

    /// Returns the options in the order in which pip applies them.
    fn in_order(&self, os: Os, command: PipCommand) -> Vec<PipOption> {
        let own = if command == PipCommand::Install { "install" } else { "uninstall" };
        let in_section = |section_name: &'static str| {
            let sections = self.files.iter().filter_map(move |(file, all)| Some((file, all.get(section_name)?, all)));
            sections.flat_map(move |(file, section, all)| {
                let values = all.get("DEFAULT").into_iter().flatten().chain(section);
                values.map(move |(name, value)| PipOption {
                    source: file.clone(),
                    name: name.clone(),
                    value: value.clone(),
                    is_of_command: section_name != "global",
                })
            })
        };
        // Only the last value of a section counts, even if it is empty, but in the place of the first one.
        let last = |options: &mut dyn Iterator<Item = PipOption>| {
            options.fold(Vec::new(), |mut all: Vec<PipOption>, option| {
                match all.iter_mut().find(|other| other.name == option.name) {
                    Some(other) => *other = option,
                    None => all.push(option),
                }
                all
            })
        };
        let variables = variables().filter(|variable| os == Os::Windows || !variable.may_be_unset());
        [last(&mut in_section("global")), last(&mut in_section(own)), last(&mut { variables })].concat()
    }
}

/// Returns the options that variables set, in the order of the environment. pip uses the last one.
fn variables() -> impl Iterator<Item = PipOption> {
    facts::variable_names(PREFIX).into_iter().filter_map(|variable| {
        let name = option_name(variable.strip_prefix(PREFIX)?);
        let value = facts::variable(&variable)?.to_string_lossy().into_owned();
        Some(PipOption { source: variable.into(), name, value, is_of_command: false })
    })
}

/// Returns the redirecting variables to unset.
pub(super) fn redirecting_variables() -> Vec<PathBuf> {
    let redirecting = variables().filter(|variable| variable.may_be_unset() && !variable.value.is_empty());
    redirecting.map(|variable| variable.source).collect()
}

/// Returns the common name for all spellings of an option's variable: `PIP_CONSTRAINT` for `PIP_Constraint`.
pub fn canonical_variable(name: &str) -> String {
    let canonical =
        name.strip_prefix(PREFIX).map(|key| format!("{PREFIX}{}", option_name(key).replace('-', "_").to_uppercase()));
    canonical.filter(|canonical| canonical != CONFIG_FILE).unwrap_or_else(|| name.to_owned())
}

fn option_name(key: &str) -> String {
    let name = key.to_lowercase().replace('_', "-");
    name.strip_prefix("--").map(str::to_owned).unwrap_or(name)
}

/// Returns the names and values by section, as Python's `configparser` reads them: a line with more indentation than
/// the name above continues the value. The error is the reason why pip fails, as a predicate.
fn sections(text: &str) -> Result<Sections, String> {
    let mut sections = Sections::new();
    let mut seen = BTreeSet::new();
    let mut current: Option<String> = None;
    let mut indent_of_name = None;
    for (index, line) in text.replace("\r\n", "\n").split(['\n', '\r']).enumerate() {
        let content = line.trim();
        let indent = line.len() - line.trim_start().len();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let values = current.as_ref().and_then(|section| sections.get_mut(section));
        let invalid = |what: &str| Err(format!("has {what} in line {}", index + 1));
        if indent_of_name.is_some_and(|of_name| indent > of_name) {
            let last = values.and_then(|values| values.last_mut());
            last.into_iter().for_each(|(_, value)| *value = format!("{value}\n{content}").trim().to_owned());
        } else if let Some((header, _)) = content.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            if header != "DEFAULT" && sections.insert(header.to_owned(), Vec::new()).is_some() {
                return invalid("a section again");
            }
            sections.entry(header.to_owned()).or_default();
            (current, indent_of_name) = (Some(header.to_owned()), None);
        } else {
            let (Some(values), Some(section)) = (values, &current) else {
                return invalid("a value before any section");
            };
            let Some((key, value)) = content.split_once(['=', ':']) else { return invalid("a name without a value") };
            let key = key.trim();
            if key.is_empty() || !seen.insert((section.clone(), key.to_lowercase())) {
                return invalid("a name again, or none");
            }
            values.push((option_name(key), value.trim().to_owned()));
            indent_of_name = Some(indent);
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests;

//! Reads the options that pip takes from its configuration files and from variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_probe::{facts, read_bounded};

use super::settings::pip_settings;

/// The options that make pip change something other than what a command names, and what it changes then.
const REDIRECTIONS: [(&str, &str); 10] = [
    ("dry-run", "nothing"),
    ("editable", "other packages, too"),
    ("group", "other packages, too"),
    // pip takes any value of this option for `user`.
    ("no-user", "another place"),
    ("prefix", "another place"),
    ("python", "another place"),
    ("requirement", "other packages, too"),
    ("root", "another place"),
    ("target", "another place"),
    ("user", "another place"),
];

/// An option in one of pip's configuration files.
pub(super) struct PipOption {
    /// The file.
    pub(super) file: PathBuf,
    /// The name as on the command line, without the dashes: `dry-run`.
    pub(super) name: String,
    /// The value. A list may have several lines.
    pub(super) value: String,
}

impl PipOption {
    /// Returns what pip changes because of this option, if that is something other than what a command names.
    pub(super) fn redirection(&self) -> Option<&'static str> {
        const OFF: [&str; 6] = ["0", "f", "false", "n", "no", "off"];
        redirection(&self.name).filter(|_| !OFF.contains(&self.value.to_lowercase().as_str()))
    }
}

/// Returns what pip changes because of the option with this name.
fn redirection(option: &str) -> Option<&'static str> {
    REDIRECTIONS.into_iter().find_map(|(name, changed)| (name == option).then_some(changed))
}

/// Returns the options that pip reads from its configuration files with the Python of this prefix, when it installs and
/// uninstalls. Later files replace the options of earlier ones, and the sections of commands replace those of `[global]`.
pub(super) fn options_in_files(prefix: Option<&Path>) -> Vec<PipOption> {
    let files = pip_settings(prefix).into_iter().filter_map(|file| Some((text(&file)?, file)));
    let files: Vec<(String, PathBuf)> = files.collect();
    let in_section = |section: &'static str| {
        let options = files.iter().flat_map(move |(text, file)| {
            let option = |(name, value)| PipOption { file: file.clone(), name, value };
            values(text, section).into_iter().map(option)
        });
        options.map(|option| (option.name.clone(), option)).collect::<BTreeMap<_, _>>()
    };
    let options = ["global", "install", "uninstall"].into_iter().flat_map(in_section);
    options.filter(|(_, option)| !option.value.is_empty()).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Returns the variables that set options of pip, sorted by name, with the names of the options.
fn variables() -> impl Iterator<Item = (String, String)> {
    const PREFIX: &str = "PIP_";
    let is_set = |name: &String| facts::variable(name).is_some_and(|value| !value.is_empty());
    let mut names: Vec<String> = facts::variable_names(PREFIX).into_iter().filter(is_set).collect();
    names.sort();
    names.into_iter().filter_map(|name| {
        let option = option_name(name.strip_prefix(PREFIX)?);
        Some((name, option))
    })
}

/// Returns the variables that make pip change something other than what a command names.
pub(super) fn redirecting_variables() -> Vec<String> {
    variables().filter(|(_, option)| redirection(option).is_some()).map(|(name, _)| name).collect()
}

/// Returns the values of the variables that set this option, separated by spaces.
pub(super) fn value_in_variables(option: &str) -> String {
    let values = variables().filter(|(_, name)| name == option).filter_map(|(name, _)| facts::variable(&name));
    values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Returns the name of the option that a key or a part of a variable's name sets.
fn option_name(key: &str) -> String {
    let name = key.to_lowercase().replace('_', "-");
    name.strip_prefix("--").map(str::to_owned).unwrap_or(name)
}

/// Returns the text of a configuration file.
fn text(file: &Path) -> Option<String> {
    const MAX_LEN: u64 = 1 << 20;
    Some(String::from_utf8_lossy(&read_bounded(file, MAX_LEN).ok()?).into_owned())
}

/// Returns the names and values in a section, as Python's `configparser` reads them: a line with more indentation than the
/// name above continues its value, and each section that exists includes the values of `[DEFAULT]`.
fn values(text: &str, section: &str) -> Vec<(String, String)> {
    let mut sections: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    let mut current = sections.entry("").or_default();
    let mut indent_of_name = None;
    for line in text.split(['\n', '\r']) {
        let content = line.trim();
        let indent = line.len() - line.trim_start().len();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if indent_of_name.is_some_and(|of_name| indent > of_name) {
            current
                .last_mut()
                .into_iter()
                .for_each(|(_, value)| *value = format!("{value}\n{content}").trim().to_owned());
        } else if let Some((header, _)) = content.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            current = sections.entry(header).or_default();
            indent_of_name = None;
        } else {
            let pair = content.split_once(['=', ':']);
            indent_of_name = pair.map(|_| indent);
            current.extend(pair.map(|(key, value)| (option_name(key.trim()), value.trim().to_owned())));
        }
    }
    let Some(own) = sections.remove(section) else { return Vec::new() };
    sections.remove("DEFAULT").unwrap_or_default().into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_probe::facts::{Changes, Facts};

    #[test]
    fn values_are_read_like_configparser_reads_them() {
        let global = "[wheel]\nconstraint = /no\n  /no\n[global]\nConstraint =\n    /a.txt\n\t/b.txt\n    # /old.txt\n\
                      --prefix : /x\rno value\n";
        let install = "  [install]\n  --dry_run: 1\n   2\n  target =\n[global]\n  no_deps = 1\n";
        let default = "[DEFAULT]\ntarget=/y\n[install]\nroot=/z\n";
        for (text, section, expected) in [
            (global, "global", &[("constraint", "/a.txt\n/b.txt"), ("prefix", "/x")][..]),
            (global, "install", &[]),
            (install, "install", &[("dry-run", "1\n2"), ("target", "")]),
            (install, "global", &[("no-deps", "1")]),
            (default, "install", &[("target", "/y"), ("root", "/z")]),
            (default, "global", &[]),
        ] {
            let found = values(text, section);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn variables_set_options_in_any_case() {
        let names = ["PIP_target", "PIP_Dry_Run", "PIP_DRY_RUN", "PIP_TIMEOUT", "PIP_ROOT"].map(str::to_owned).to_vec();
        let mut changes = Changes::default();
        names.iter().for_each(|name| changes.set_variable(name, Some("1".into())));
        changes.set_variable("PIP_ROOT", Some("".into()));
        changes.set_answer("names of variables", "PIP_", &names);
        let found = Facts::recorder().after(changes).within(redirecting_variables);
        assert_eq!(found, ["PIP_DRY_RUN", "PIP_Dry_Run", "PIP_target"]);
    }
}

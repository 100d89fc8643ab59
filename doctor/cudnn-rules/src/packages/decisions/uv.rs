//! What the user has decided in uv's variables, configuration and projects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_probe::facts;
use toml_edit::Item;

use super::decision::{Decision, DecisionKind};
use super::requirements_file::decisions_in_files;
use crate::packages::settings::uv_settings;
use crate::packages::toml_file::toml;

/// The kinds of decisions with the variables that name files of them, and the lists in uv's settings.
const KINDS: [(DecisionKind, &str, &str); 3] = [
    (DecisionKind::Override, "UV_OVERRIDE", "override-dependencies"),
    (DecisionKind::Constraint, "UV_CONSTRAINT", "constraint-dependencies"),
    (DecisionKind::Exclusion, "UV_EXCLUDE", "exclude-dependencies"),
];

/// Returns the setting by which uv would change another place or other packages, as a clause. If the commands name a
/// directory, they replace that of the settings.
pub(super) fn redirection(root: &Path, has_directory: bool) -> Option<String> {
    const REDIRECTIONS: [(&str, &str); 3] =
        [("prefix", "another place"), ("target", "another place"), ("group", "other packages, too")];
    settings_of(root).into_iter().find_map(|(file, settings)| {
        let of_pip = settings.get("pip")?;
        let is_set = |(key, _): &(&str, &str)| of_pip.get(key).is_some() && !(has_directory && *key == "target");
        let (key, changed) = REDIRECTIONS.into_iter().find(is_set)?;
        Some(format!("{} has `pip.{key}`, so that uv would change {changed}", file.printable()))
    })
}

/// Returns the decisions in uv's settings, and in the files that its variables name.
pub(super) fn decisions(root: &Path) -> Vec<Decision> {
    let in_variables = KINDS.into_iter().flat_map(|(kind, name, _)| {
        let files = variable(name).unwrap_or_default();
        decisions_in_files(&files.to_string_lossy()).into_iter().map(move |decision| match decision.kind {
            DecisionKind::MissingFile => decision,
            _ => Decision { kind, ..decision },
        })
    });
    let files = settings_of(root);
    let in_files = files.iter().flat_map(|(file, settings)| {
        let lists = KINDS.into_iter().filter_map(|(kind, _, key)| Some((kind, settings.get(key)?.as_array()?)));
        lists.flat_map(move |(kind, list)| {
            let requirements = list.iter().filter_map(|one| one.as_str()).map(str::trim);
            requirements.map(move |one| Decision { kind, ..Decision::constraint(file, one.to_owned()) })
        })
    });
    in_variables.chain(in_files).collect()
}

/// Returns uv's settings in the project that contains the environment, in the project of the working directory, where the
/// printed command runs, and in uv's configuration.
fn settings_of(root: &Path) -> Vec<(PathBuf, Item)> {
    let working_dir = facts::current_dir().ok();
    let above = [root.parent(), working_dir.as_deref()].into_iter().flatten();
    let projects = above.filter_map(|dir| dir.ancestors().find_map(settings_in));
    // uv reads nothing else then.
    match variable("UV_CONFIG_FILE") {
        Some(file) => settings(file.into()).into_iter().collect(),
        None if reads_no_settings() => Vec::new(),
        None => projects.chain(uv_settings().into_iter().filter_map(settings)).collect(),
    }
}

/// Returns uv's settings of the project that contains this directory, if uv reads them there and not in the root directory.
pub fn uv_project_settings(dir: &Path) -> Option<PathBuf> {
    let is_read = variable("UV_CONFIG_FILE").is_none() && !reads_no_settings();
    let mut dirs = dir.ancestors().filter(|dir| is_read && dir.parent().is_some());
    dirs.find_map(settings_in).map(|(file, _)| file)
}

fn reads_no_settings() -> bool {
    const TRUE: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
    variable("UV_NO_CONFIG").is_some_and(|value| TRUE.iter().any(|on| value.eq_ignore_ascii_case(on)))
}

fn settings_in(dir: &Path) -> Option<(PathBuf, Item)> {
    ["uv.toml", "pyproject.toml"].into_iter().find_map(|name| settings(dir.join(name)))
}

fn variable(name: &str) -> Option<OsString> {
    facts::variable(name).filter(|value| !value.is_empty())
}

/// Returns uv's settings in this file. `None` if it contains none.
fn settings(file: PathBuf) -> Option<(PathBuf, Item)> {
    let keys = if file.ends_with("pyproject.toml") { &["tool", "uv"][..] } else { &[] };
    let settings = toml(&file, keys)?;
    Some((file, settings))
}

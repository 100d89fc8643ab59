//! What the user has decided in uv's variables, configuration and projects.

use std::path::{Path, PathBuf};

use cudnn_probe::facts;
use toml_edit::Item;

use super::decision::{Decision, DecisionKind};
use super::requirements_file::decisions_in_files;
use crate::packages::settings::{toml, uv_settings};

/// The kinds of decisions with the variables that name files of them, and the lists in uv's settings.
const KINDS: [(DecisionKind, &str, &str); 3] = [
    (DecisionKind::Override, "UV_OVERRIDE", "override-dependencies"),
    (DecisionKind::Constraint, "UV_CONSTRAINT", "constraint-dependencies"),
    (DecisionKind::Exclusion, "UV_EXCLUDE", "exclude-dependencies"),
];

/// Returns the decisions in the project that contains the environment, in the project of the working directory, where the
/// printed command runs, in uv's configuration, and in the files that uv's variables name.
pub(super) fn decisions(root: &Path) -> Vec<Decision> {
    let value = |name| facts::variable(name).filter(|value| !value.is_empty());
    let in_variables = KINDS.into_iter().flat_map(|(kind, name, _)| {
        let files = value(name).unwrap_or_default();
        decisions_in_files(&files.to_string_lossy()).into_iter().map(move |decision| Decision { kind, ..decision })
    });
    let working_dir = facts::current_dir().ok();
    let above = [root.parent(), working_dir.as_deref()].into_iter().flatten();
    let in_dir = |dir: &Path| ["uv.toml", "pyproject.toml"].into_iter().find_map(|name| settings(dir.join(name)));
    let projects = above.filter_map(|dir| dir.ancestors().find_map(in_dir));
    // uv reads nothing else then.
    let files: Vec<(PathBuf, Item)> = match value("UV_CONFIG_FILE") {
        Some(file) => settings(file.into()).into_iter().collect(),
        None if value("UV_NO_CONFIG").is_some_and(|value| value == "1" || value == "true") => Vec::new(),
        None => projects.chain(uv_settings().into_iter().filter_map(settings)).collect(),
    };
    let in_files = files.iter().flat_map(|(file, settings)| {
        let lists = KINDS.into_iter().filter_map(|(kind, _, key)| Some((kind, settings.get(key)?.as_array()?)));
        lists.flat_map(move |(kind, list)| {
            let requirements = list.iter().filter_map(|one| one.as_str()).map(str::trim);
            requirements.map(move |one| Decision { kind, ..Decision::constraint(file, one.to_owned()) })
        })
    });
    in_variables.chain(in_files).collect()
}

/// Returns uv's settings in this file. `None` if it contains none.
fn settings(file: PathBuf) -> Option<(PathBuf, Item)> {
    let keys = if file.ends_with("pyproject.toml") { &["tool", "uv"][..] } else { &[] };
    let settings = toml(&file, keys)?;
    Some((file, settings))
}

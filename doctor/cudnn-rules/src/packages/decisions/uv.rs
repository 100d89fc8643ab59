//! Finds the user's decisions in uv's variables, configuration and projects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_frameworks::real_path;
use cudnn_probe::facts::{self, PathFacts};
use toml_edit::Item;

use super::decision::{Decision, DecisionKind};
use super::requirements_file::decisions_in_files;
use crate::packages::decision_file::{text, toml};
use crate::packages::settings::uv_settings;

/// The kinds of decisions, with the variables that list files and the settings that list requirements.
const KINDS: [(DecisionKind, &str, &str); 3] = [
    (DecisionKind::Override, "UV_OVERRIDE", "override-dependencies"),
    (DecisionKind::Constraint, "UV_CONSTRAINT", "constraint-dependencies"),
    (DecisionKind::Exclusion, "UV_EXCLUDE", "exclude-dependencies"),
];

/// A variable and settings that keep uv from installing packages.
struct Policy {
    variable: Option<&'static str>,
    /// The settings that uv knows, in the order of precedence.
    settings: &'static [&'static str],
    /// Whether uv may still install from places that [`FIND_LINKS`] name.
    allows_links: bool,
    changed: &'static str,
}

const POLICIES: [Policy; 4] = [
    Policy {
        variable: None,
        settings: &["pip.no-binary", "no-binary"],
        allows_links: false,
        changed: "nothing, because there are only wheels",
    },
    Policy {
        variable: None,
        settings: &["pip.no-index", "no-index"],
        allows_links: true,
        changed: "nothing, because it uses no index",
    },
    Policy {
        variable: Some("UV_OFFLINE"),
        settings: &["offline"],
        allows_links: true,
        changed: "nothing without the network",
    },
    Policy {
        variable: Some("UV_REQUIRE_HASHES"),
        settings: &["pip.require-hashes"],
        allows_links: false,
        changed: "nothing, because the commands contain no hashes",
    },
];

const FIND_LINKS: (&str, [&str; 2]) = ("UV_FIND_LINKS", ["pip.find-links", "find-links"]);

/// The variables that set uv's working directory, and the directory of the project in it.
pub const UV_DIRS: [&str; 3] = ["UV_WORKING_DIR", "UV_WORKING_DIRECTORY", "UV_PROJECT"];

/// The settings in a file, or the reason why uv refuses it.
struct Settings {
    file: PathBuf,
    content: Result<Item, String>,
}

/// Returns the decisions in uv's settings and in the files that variables name. If the commands contain a directory,
/// they ignore the directory in the settings.
pub(super) fn decisions(root: &Path, has_directory: bool) -> Vec<Decision> {
    let in_variables = KINDS.into_iter().flat_map(|(kind, name, _)| {
        let files = variable(name).unwrap_or_default();
        let mut decisions = decisions_in_files(&files.to_string_lossy(), &uv_working_dir());
        let readable = decisions.iter_mut().filter(|one| one.kind != DecisionKind::NoInstallation);
        readable.for_each(|one| one.kind = kind);
        decisions
    });
    let lost = [uv_working_dir(), project_dir()].into_iter().find(|dir| !dir.leads_to_dir());
    let lost = lost.filter(|_| UV_DIRS.iter().any(|name| variable(name).is_some()));
    let lost = lost.map(|dir| Decision::refused_settings(&dir, "is not a directory, but a variable names it", "uv"));
    let files = settings_of(root);
    let in_files = files.iter().flat_map(|settings| in_settings(settings, has_directory));
    lost.into_iter().chain(policies(&files)).chain(in_variables).chain(in_files).collect()
}

fn in_settings(settings: &Settings, has_directory: bool) -> Vec<Decision> {
    const REDIRECTIONS: [(&str, &str); 3] =
        [("group", "other packages, too"), ("prefix", "another place"), ("target", "another place")];
    let Settings { file, content } = settings;
    let content = match content {
        Ok(content) => content,
        Err(reason) => return vec![Decision::refused_settings(file, reason, "uv")],
    };
    let value = |key: &str| content.get("pip")?.get(key);
    let is_set = |key: &str| value(key).is_some_and(|value| value.as_bool() != Some(false));
    let redirections = REDIRECTIONS.into_iter().filter(|(key, _)| is_set(key) && !(has_directory && *key == "target"));
    let redirections =
        redirections.map(|(key, changed)| Decision::redirection(file, &format!("pip.{key}"), "uv", changed));
    let lists = KINDS.into_iter().filter_map(|(kind, _, key)| Some((kind, content.get(key)?.as_array()?)));
    let in_lists = lists.flat_map(|(kind, list)| {
        let requirements = list.iter().filter_map(|one| one.as_str()).map(str::trim);
        requirements.map(move |one| Decision { kind, ..Decision::constraint(file, one.to_owned()) })
    });
    redirections.chain(in_lists).collect()
}

fn policies(files: &[Settings]) -> Vec<Decision> {
    let (variable_of_links, settings_of_links) = FIND_LINKS;
    let has_links =
        variable(variable_of_links).is_some() || settings_of_links.iter().any(|name| found(files, name).is_some());
    let policies = POLICIES.iter().filter(|policy| !(has_links && policy.allows_links)).filter_map(|policy| {
        let decision = |source: &Path, setting: &str| Decision::policy(source, setting, "uv", policy.changed);
        if let Some(name) = policy.variable.filter(|name| variable(name).is_some()) {
            return is_true(name).then(|| decision(Path::new(name), "true"));
        }
        let (name, (file, value)) = policy.settings.iter().find_map(|name| Some((name, found(files, name)?)))?;
        // A list of packages may not concern this change.
        let is_for_all = value.as_array().is_none_or(|list| list.iter().any(|one| one.as_str() == Some(":all:")));
        (is_for_all && value.as_bool() != Some(false)).then(|| decision(file, &format!("{name} = true")))
    });
    policies.collect()
}

/// Returns a setting, such as `pip.no-index`, from the first file that has it.
fn found<'a>(files: &'a [Settings], name: &str) -> Option<(&'a Path, &'a Item)> {
    files.iter().find_map(|Settings { file, content }| {
        let content = content.as_ref().ok()?;
        let value = match name.split_once('.') {
            Some((table, key)) => content.get(table)?.get(key)?,
            None => content.get(name)?,
        };
        Some((file.as_path(), value))
    })
}

/// Returns uv's settings in the environment's project, in the project where the printed command runs, and in uv's
/// configuration.
fn settings_of(root: &Path) -> Vec<Settings> {
    // uv then reads no other file.
    if let Some(file) = variable("UV_CONFIG_FILE") {
        let file = uv_working_dir().join(file);
        let content = toml(&file, &[]).and_then(|found| found.ok_or_else(|| "does not exist".to_owned()));
        return vec![Settings { file, content }];
    }
    if is_true("UV_NO_CONFIG") {
        return Vec::new();
    }
    let project = |dir: &Path| dir.ancestors().find_map(settings_in);
    // uv may run in a different directory, and ignore a file that it would refuse.
    let of_environment = root.parent().and_then(project).filter(|settings| settings.content.is_ok());
    let files = uv_settings().into_iter().filter(|file| file.ends_with("uv.toml"));
    of_environment.into_iter().chain(project(&project_dir())).chain(files.filter_map(settings)).collect()
}

/// Returns the settings that uv reads when the printed command runs in a project. Files in the root directory are
/// ignored.
pub fn uv_project_settings() -> Option<PathBuf> {
    let is_read = variable("UV_CONFIG_FILE").is_none() && !is_true("UV_NO_CONFIG");
    let project = project_dir();
    let mut dirs = project.ancestors().filter(|dir| is_read && dir.parent().is_some());
    dirs.find_map(settings_in).map(|settings| settings.file)
}

fn is_true(name: &str) -> bool {
    const TRUE: [&str; 6] = ["1", "on", "t", "true", "y", "yes"];
    variable(name).is_some_and(|value| TRUE.iter().any(|on| value.eq_ignore_ascii_case(on)))
}

/// Returns uv's working directory.
pub fn uv_working_dir() -> PathBuf {
    let [dir, dir_of_older, _] = UV_DIRS.map(variable);
    let current = facts::current_dir().unwrap_or_default();
    dir.or(dir_of_older).map_or(current.clone(), |dir| current.join(dir))
}

fn project_dir() -> PathBuf {
    let [.., project] = UV_DIRS.map(variable);
    real_path(&project.map_or_else(uv_working_dir, |project| uv_working_dir().join(project)))
}

fn settings_in(dir: &Path) -> Option<Settings> {
    ["uv.toml", "pyproject.toml"].into_iter().find_map(|name| settings(dir.join(name)))
}

fn variable(name: &str) -> Option<OsString> {
    facts::variable(name).filter(|value| !value.is_empty())
}

fn settings(file: PathBuf) -> Option<Settings> {
    let is_project = file.ends_with("pyproject.toml");
    let keys = if is_project { &["tool", "uv"][..] } else { &[] };
    let content = match toml(&file, keys) {
        // uv only warns, and continues in the directory above.
        Err(_) if is_project && text(&file).is_ok() => None,
        content => content.transpose(),
    };
    content.map(|content| Settings { file, content })
}

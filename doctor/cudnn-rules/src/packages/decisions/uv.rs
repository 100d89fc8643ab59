//! What the user has decided in uv's variables, configuration and projects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::path::program_on_path;
use cudnn_frameworks::{program_contains, real_path};
use cudnn_probe::facts::{self, PathFacts, is_native_program};
use toml_edit::Item;

use super::decision::{Decision, DecisionKind};
use super::requirements_file::decisions_in_files;
use crate::packages::decision_file::{text, toml};
use crate::packages::settings::uv_settings;

/// The kinds of decisions with the variables that name files of them, and the lists in uv's settings.
const KINDS: [(DecisionKind, &str, &str); 3] = [
    (DecisionKind::Override, "UV_OVERRIDE", "override-dependencies"),
    (DecisionKind::Constraint, "UV_CONSTRAINT", "constraint-dependencies"),
    (DecisionKind::Exclusion, "UV_EXCLUDE", "exclude-dependencies"),
];

/// The variable and the setting that make uv refuse packages without hashes, and what uv changes then.
const REQUIRE_HASHES: (&str, &str, &str) =
    ("UV_REQUIRE_HASHES", "require-hashes", "nothing, because the commands contain no hashes");

/// The variables that name other directories for uv than the working directory, and that of the project in it.
pub const UV_DIRS: [&str; 3] = ["UV_WORKING_DIR", "UV_WORKING_DIRECTORY", "UV_PROJECT"];

/// The settings in a file, or why uv refuses it.
struct Settings {
    file: PathBuf,
    content: Result<Item, String>,
}

/// Returns the decisions in uv's settings, and in the files that its variables name. If the commands name a directory, they
/// replace that of the settings.
pub(super) fn decisions(root: &Path, has_directory: bool) -> Vec<Decision> {
    let in_variables = KINDS.into_iter().flat_map(|(kind, name, _)| {
        let files = variable(name).unwrap_or_default();
        decisions_in_files(&files.to_string_lossy(), &uv_working_dir()).into_iter().map(move |decision| match decision
            .kind
        {
            DecisionKind::NoInstallation => decision,
            _ => Decision { kind, ..decision },
        })
    });
    let lost = [uv_working_dir(), project_dir()].into_iter().find(|dir| !dir.leads_to_dir());
    let lost = lost.filter(|_| UV_DIRS.iter().any(|name| variable(name).is_some()));
    let lost = lost.map(|dir| Decision::refused_settings(&dir, "is not a directory, but a variable names it", "uv"));
    let files = settings_of(root);
    let in_files = files.iter().flat_map(|settings| in_settings(settings, has_directory));
    let (name, _, changed) = REQUIRE_HASHES;
    let hashes = is_true(name).then(|| Decision::redirection(Path::new(name), "true", "uv", changed));
    lost.into_iter().chain(hashes).chain(in_variables).chain(in_files).collect()
}

/// Returns the decisions in these settings.
fn in_settings(settings: &Settings, has_directory: bool) -> Vec<Decision> {
    const REDIRECTIONS: [(&str, &str); 4] = [
        ("group", "other packages, too"),
        ("prefix", "another place"),
        (REQUIRE_HASHES.1, REQUIRE_HASHES.2),
        ("target", "another place"),
    ];
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

/// Returns uv's settings in the project that contains the environment, in the project in which the printed command runs, and
/// in uv's configuration.
fn settings_of(root: &Path) -> Vec<Settings> {
    // uv reads nothing else then.
    if let Some(file) = variable("UV_CONFIG_FILE") {
        let file = uv_working_dir().join(file);
        let content = known_settings(&file, &[]).and_then(|found| found.ok_or_else(|| "does not exist".to_owned()));
        return vec![Settings { file, content }];
    }
    if is_true("UV_NO_CONFIG") {
        return Vec::new();
    }
    let project = |dir: &Path| dir.ancestors().find_map(settings_in);
    // uv may run elsewhere, and does not read a file that it would refuse then.
    let of_environment = root.parent().and_then(project).filter(|settings| settings.content.is_ok());
    let files = uv_settings().into_iter().filter(|file| file.ends_with("uv.toml"));
    of_environment.into_iter().chain(project(&project_dir())).chain(files.filter_map(settings)).collect()
}

/// Returns uv's settings of the project in which the printed command runs, if uv reads them there and not in the root
/// directory.
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

/// Returns the directory in which uv works.
pub fn uv_working_dir() -> PathBuf {
    let [dir, dir_of_older, _] = UV_DIRS.map(variable);
    let current = facts::current_dir().unwrap_or_default();
    dir.or(dir_of_older).map_or(current.clone(), |dir| current.join(dir))
}

/// Returns the directory in which uv searches for a project.
fn project_dir() -> PathBuf {
    let [.., project] = UV_DIRS.map(variable);
    real_path(&project.map_or_else(uv_working_dir, |project| uv_working_dir().join(project)))
}

fn settings_in(dir: &Path) -> Option<Settings> {
    ["uv.toml", "pyproject.toml"].into_iter().find_map(|name| settings(dir.join(name)))
}

/// Returns the settings below these keys in a file. `None` if there is no such file or key.
///
/// # Errors
/// The reason why uv refuses the settings, as a predicate. uv's program contains the names of all settings that it knows.
fn known_settings(file: &Path, keys: &[&str]) -> Result<Option<Item>, String> {
    let settings = toml(file, keys)?;
    let program = program_on_path("uv").filter(|program| is_native_program(program));
    let tables = settings.iter().chain(settings.as_ref().and_then(|settings| settings.get("pip")));
    let names = tables.filter_map(Item::as_table_like).flat_map(|table| table.iter()).map(|(name, _)| name);
    for name in names {
        if program.as_ref().is_some_and(|program| !program_contains(program, name)) {
            return Err(format!("has the setting `{}`, which uv does not know", name.printable()));
        }
    }
    Ok(settings)
}

fn variable(name: &str) -> Option<OsString> {
    facts::variable(name).filter(|value| !value.is_empty())
}

/// Returns uv's settings in this file. `None` if it contains none.
fn settings(file: PathBuf) -> Option<Settings> {
    let is_project = file.ends_with("pyproject.toml");
    let keys = if is_project { &["tool", "uv"][..] } else { &[] };
    let content = match known_settings(&file, keys) {
        // uv only warns, and continues in the directory above.
        Err(_) if is_project && text(&file).is_ok() => None,
        content => content.transpose(),
    };
    content.map(|content| Settings { file, content })
}

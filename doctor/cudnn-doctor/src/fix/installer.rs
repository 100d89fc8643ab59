//! Recognizes the commands of pip, uv, conda and pixi, and selects the environment variables of root's programs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_os::rights::is_root;
use cudnn_rules::packages::{UV_DIRS, canonical_variable, uv_working_dir};

use super::foreign::changeable_by_others;

/// The variables passed to root's programs. Most others are removed, because variables such as `LD_PRELOAD`,
/// `OPENSSL_CONF` and `PYTHONHOME` name files with code or settings. `PYTHONUSERBASE` names code, too, but no step
/// runs Python if another user can change that directory.
const PASSED: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "PYTHONUSERBASE",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_HOME",
];

const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// The variables that name the directory for temporary files, where installers unpack packages.
pub(super) const TEMPORARY: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];

/// The variables that name certificates, and so decide which servers an installer trusts.
pub(super) const CERTIFICATES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// Settings that no step needs: caches that another user may fill, a log, and variables that conda's activation sets.
const UNUSED: [&str; 9] = [
    "PIP_CACHE_DIR",
    "PIP_LOG",
    "UV_CACHE_DIR",
    "CONDA_EXE",
    "CONDA_PYTHON_EXE",
    "CONDA_SHLVL",
    "CONDA_DEFAULT_ENV",
    "CONDA_PROMPT_MODIFIER",
    "MAMBA_EXE",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageManager {
    Pip,
    Uv,
    /// conda, mamba and micromamba read the same settings.
    Conda,
    Pixi,
}

impl PackageManager {
    pub(super) const ALL: [PackageManager; 4] =
        [PackageManager::Pip, PackageManager::Uv, PackageManager::Conda, PackageManager::Pixi];

    /// Returns the installer that this command runs: the program, or Python's first argument (a path, or a module after
    /// `-m`).
    pub(super) fn of(command: &Command) -> Option<PackageManager> {
        let (program, arguments) =
            started_by_env(command).unwrap_or((command.program.as_os_str(), command.arguments.as_slice()));
        let named = |word: &OsStr| match Path::new(word).file_name()?.to_str()? {
            "pip" | "pip3" => Some(PackageManager::Pip),
            "uv" => Some(PackageManager::Uv),
            "conda" | "mamba" | "micromamba" => Some(PackageManager::Conda),
            "pixi" => Some(PackageManager::Pixi),
            _ => None,
        };
        let first = || arguments.iter().find(|argument| !argument.as_encoded_bytes().starts_with(b"-"));
        named(program).or_else(|| named(first()?))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            PackageManager::Pip => "pip",
            PackageManager::Uv => "uv",
            PackageManager::Conda => "conda",
            PackageManager::Pixi => "pixi",
        }
    }

    pub(super) fn reads(self, variable: &str) -> bool {
        let starts = match self {
            PackageManager::Pip => &["PIP_"][..],
            PackageManager::Uv => &["UV_"],
            PackageManager::Conda => &["CONDARC", "CONDA_", "MAMBARC", "MAMBA_"],
            // pixi's other variables change caches and defaults.
            PackageManager::Pixi => &["PIXI_HOME"],
        };
        // The environments below the active one, and uv's working directory.
        let is_unused = [&UNUSED[..], &UV_DIRS].iter().any(|names| names.contains(&variable))
            || variable.starts_with("CONDA_PREFIX_");
        starts.iter().any(|start| variable.starts_with(start)) && !is_unused
    }
}

/// Returns the variables of this process, except variables that all of these commands unset. pip accepts several
/// spellings of a name and uses the last one, which gets the usual name here.
pub(super) fn variables(commands: &[&Command]) -> BTreeMap<OsString, OsString> {
    let unsets = |command: &&Command, name: &OsString| command.program == "env" && command.arguments.contains(name);
    let is_unset = |name: &OsString| !commands.is_empty() && commands.iter().all(|command| unsets(command, name));
    let kept = std::env::vars_os().filter(|(name, _)| !is_unset(name));
    let canonical = |name: OsString| name.to_str().map(|name| canonical_variable(name).into()).unwrap_or(name);
    kept.map(|(name, value)| (canonical(name), value)).collect()
}

pub(super) fn variables_for(command: &Command) -> BTreeMap<OsString, OsString> {
    let mut variables = variables(&[command]);
    if is_root() {
        let installer = PackageManager::of(command);
        variables.retain(|name, value| name.to_str().is_some_and(|name| is_passed(name, value, installer)));
        variables.iter_mut().for_each(|(name, value)| *value = adapted(name, value));
    }
    variables
}

pub(super) fn adapted(name: &OsStr, value: &OsStr) -> OsString {
    match name.to_str() {
        Some("PATH") => only_of_root(value),
        Some("PIP_CONSTRAINT") => with_absolute_paths(value, Path::new("")),
        Some("UV_CONSTRAINT" | "UV_EXCLUDE" | "UV_OVERRIDE") => with_absolute_paths(value, &uv_working_dir()),
        Some("PIP_CONFIG_FILE") => std::path::absolute(value).map_or(value.to_owned(), PathBuf::into_os_string),
        Some("UV_CONFIG_FILE") => uv_working_dir().join(value).into_os_string(),
        _ => value.to_owned(),
    }
}

/// Makes paths absolute, because programs of root run in the root directory.
fn with_absolute_paths(files: &OsStr, dir: &Path) -> OsString {
    let Some(files) = files.to_str() else { return files.to_owned() };
    let absolute = |file: &str| match std::path::absolute(dir.join(file)) {
        Ok(path) if path.exists() => path.display().to_string(),
        _ => file.to_owned(),
    };
    files.split_whitespace().map(absolute).collect::<Vec<_>>().join(" ").into()
}

/// Removes directories that another user can change from a search path. For example, pip runs `lsb_release`, `uname`
/// and `rustc` to describe the machine to the index.
fn only_of_root(path: &OsStr) -> OsString {
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute() && changeable_by_others(dir).is_none());
    // The elements of a split list contain no separators.
    std::env::join_paths(dirs).unwrap_or_default()
}

fn is_passed(variable: &str, value: &OsStr, installer: Option<PackageManager>) -> bool {
    // Programs of root run in the root directory, and a relative directory has not been checked.
    if variable == "PYTHONUSERBASE" && Path::new(value).is_relative() {
        return false;
    }
    let is_setting = installer.is_some_and(|installer| installer.reads(variable));
    let lists = [&PASSED[..], &TEMPORARY, &CERTIFICATES];
    is_setting
        || variable.starts_with("LC_")
        || PROXIES.contains(&variable.to_ascii_lowercase().as_str())
        || lists.iter().any(|list| list.contains(&variable))
}

/// Returns the program that `env` starts, and the arguments.
pub(super) fn started_by_env(command: &Command) -> Option<(&OsStr, &[OsString])> {
    let mut words = (command.program == "env").then_some(command.arguments.as_slice())?;
    loop {
        let (word, rest) = words.split_first()?;
        words = match word {
            word if word == "-u" => rest.get(1..)?,
            word if word.as_encoded_bytes().contains(&b'=') => rest,
            program => return Some((program, rest)),
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

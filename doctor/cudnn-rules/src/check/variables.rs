//! Checks environment variables: values without effect (C060), such as typos that the loader ignores, and the entries of
//! the search path (C027).

use cudnn_cli::escape::Printable;
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_probe::facts::{self, PathFacts};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use cudnn_probe::Os;

use super::finding::{Finding, NO_EFFECT, RELATIVE_PATH};
use crate::lost_environment::{self, LostEnvironment};
use crate::remedy::{Action, Remedy};
use crate::shell::split_search_path;
use crate::system::{LOADER, choose};

const PRELOAD_WORDS: [&str; 4] = ["files", "libraries", "contexts", "engines"];
const PRELOAD: &str = "CUDNN_LOADER_PRELOAD";
const PAGES: &str = cudnn_loader::preload::pages::FILE_VARIABLE;
const VERBOSE_ERRORS: &str = "CUDNN_LOADER_VERBOSE_ERRORS";
const LOG_LEVEL: &str = "CUDNN_LOGLEVEL_DBG";
const LOG_DESTINATION: &str = "CUDNN_LOGDEST_DBG";
/// The values of [`LOG_DESTINATION`] other than file names.
const NO_FILES: [&str; 3] = ["stdout", "stderr", "NULL"];

const KNOWN: [&str; 9] = [
    cudnn_probe::DIR_VARIABLE,
    PRELOAD,
    PAGES,
    VERBOSE_ERRORS,
    LOG_LEVEL,
    LOG_DESTINATION,
    "CUDNN_LOGERR_DBG",
    "CUDNN_LOGWARN_DBG",
    "CUDNN_LOGINFO_DBG",
];

const PREFIXES: [&str; 2] = ["CUDNN_LOADER_", "CUDNN_LOG"];

pub(super) fn findings() -> Vec<Finding> {
    let value = |name: &str| Some(facts::variable(name)?.to_string_lossy().into_owned());
    let ignored = KNOWN.into_iter().filter_map(|name| ignored_value(name, &value(name)?));
    let mut names: Vec<String> = PREFIXES.into_iter().flat_map(facts::variable_names).collect();
    names.sort();
    let unknown = names.iter().filter_map(|name| unknown_name(name));
    let lost = |name| LostEnvironment::in_variable(name, facts::variable(name));
    let lost = lost_environment::VARIABLES.into_iter().filter_map(lost);
    ignored.chain(unknown).chain(lost.map(|lost| lost_environment(&lost))).collect()
}

/// The user must choose the remedy, because without the variable, commands would change another Python.
fn lost_environment(lost: &LostEnvironment) -> Finding {
    let LostEnvironment { variable, root, reason } = lost;
    let message = format!("{variable}={} has no effect: {reason}", root.printable());
    let remedy = Remedy::new("create the environment again, activate another one, or unset the variable:");
    Finding::new(NO_EFFECT, message).remedy(remedy.unset(variable).by_hand())
}

fn unknown_name(name: &str) -> Option<Finding> {
    let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix)).filter(|_| !KNOWN.contains(&name))?;
    let known: Vec<&str> = KNOWN.into_iter().filter(|known| known.starts_with(prefix)).collect();
    let help = format!("the known names are {}", known.join(", "));
    Some(Finding::new(NO_EFFECT, format!("{name} has no effect: it is not a known variable")).remedy(help))
}

/// Reports a value that has no effect, or a different effect than intended.
fn ignored_value(name: &str, value: &str) -> Option<Finding> {
    let set = |text: &str, value: &str| Remedy::new(text).set(name, value);
    let (what, remedy) = match name {
        PRELOAD => {
            let words = value.split(',').map(str::trim);
            let unknown = words.filter(|word| !word.is_empty() && !PRELOAD_WORDS.contains(word));
            let unknown: Vec<String> = unknown.map(Printable::printable).collect();
            let words = Some(unknown.join(", ")).filter(|words| !words.is_empty())?;
            let known = PRELOAD_WORDS.join(", ");
            let text = format!("the known words are {known}; `files` is safe in every program:");
            (format!("contains `{words}`, which has no effect"), set(&text, "files"))
        }
        _ if value.is_empty() => return None,
        VERBOSE_ERRORS if !["0", "1"].contains(&value) => {
            ("has no effect: only the value 1 turns the reasons on".to_owned(), set("turn them on:", "1"))
        }
        PAGES if !Path::new(value).is_absolute() => {
            let text = "write the full path of a list created by `cudnn-doctor preload --keep FILE`";
            ("has no effect: it is not an absolute path".to_owned(), text.into())
        }
        LOG_LEVEL if !matches!(value.trim().parse(), Ok(0..=3)) => {
            let text = "the levels are 0 (nothing), 1 (errors), 2 (warnings) and 3 (all calls):";
            ("is not a log level".to_owned(), set(text, "3"))
        }
        LOG_DESTINATION => destination(value.trim())?,
        _ => return None,
    };
    Some(Finding::new(NO_EFFECT, format!("{name}={} {what}", value.printable())).remedy(remedy))
}

/// Explains why the log is not written to this destination, or is written somewhere unexpected.
fn destination(value: &str) -> Option<(String, Remedy)> {
    let set = |text: &str, to: &Path| Remedy::new(text).set(LOG_DESTINATION, to);
    if NO_FILES.contains(&value) {
        return None;
    }
    if let Some(name) = NO_FILES.iter().find(|name| name.eq_ignore_ascii_case(value)) {
        let remedy = set("write the name as cuDNN knows it:", Path::new(name));
        return Some((format!("is the name of a file; cuDNN knows `{name}`"), remedy));
    }
    let path = Path::new(value);
    if path.leads_to_dir() || value.ends_with('/') {
        let remedy = set("name a file in it:", &path.join("cudnn.log"));
        return Some(("is a directory: cuDNN writes no log".to_owned(), remedy));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty() && !value.contains('%') && !dir.leads_to_dir())?;
    // A file or a dangling link blocks the name of the directory or of a parent.
    if dir.ancestors().any(|dir| dir.path_exists() && !dir.leads_to_dir()) {
        let text = "is not in a directory: cuDNN writes no log".to_owned();
        return Some((text, "name a file in a directory that exists".into()));
    }
    let remedy = Remedy::new("create the directory:").action(Action::CreateDir(dir.to_owned()));
    Some(("is in a directory that does not exist: cuDNN writes no log".to_owned(), remedy))
}

/// C027: relative directories. The system resolves them from the program's working directory, while this project's
/// search ignores them.
pub(super) fn search_path() -> Option<Finding> {
    let value = facts::variable(SEARCH_PATH)?;
    let Some(dir) = value.to_str().and_then(split_dir) else { return relative_dirs(&value) };
    let message = format!("LD_LIBRARY_PATH contains {dir}, which ld.so splits into two directories");
    let help = "make a symbolic link to it, without a colon or semicolon in its name, and name the link there";
    let note = "a colon or a semicolon separates directories there, always";
    Some(Finding::new(RELATIVE_PATH, message).note(note).remedy(help))
}

fn relative_dirs(path: &OsStr) -> Option<Finding> {
    let is_relative = |dir: &&OsString| match Os::HOST {
        // Windows ignores empty elements.
        Os::Windows => !dir.is_empty() && Path::new(dir).is_relative(),
        _ => !dir.as_encoded_bytes().starts_with(b"/") && !dir.as_encoded_bytes().starts_with(b"$"),
    };
    // ld.so ignores an empty variable, but treats an empty entry as the working directory.
    let dirs = if path.is_empty() { Vec::new() } else { split_search_path(path) };
    let describe =
        |dir: &OsString| if dir.is_empty() { "an empty element".to_owned() } else { Path::new(dir).printable() };
    let mut relative: Vec<String> = dirs.iter().filter(is_relative).map(describe).collect();
    relative.dedup();
    let dirs = relative.join(", ");
    let what = match relative.len() {
        0 => return None,
        1 => format!("{SEARCH_PATH} contains a relative directory: {dirs}"),
        _ => format!("{SEARCH_PATH} contains relative directories: {dirs}"),
    };
    let help = "write the full path of the directory";
    let note = "resolves it from the working directory of the program; this project's search ignores it";
    Some(
        Finding::new(RELATIVE_PATH, what)
            .note(format!("{LOADER} {note}"))
            .remedy(format!("{help}{}", choose(", and no colon before the first or after the last one", ""))),
    )
}

/// Returns a directory with a separator in the name, which ld.so splits into two directories.
fn split_dir(path: &str) -> Option<String> {
    if Os::HOST == Os::Windows {
        return None;
    }
    let ends = || path.match_indices([':', ';']).map(|(at, _)| at).chain([path.len()]);
    let starts = std::iter::once(0).chain(ends().map(|at| at + 1));
    let mut dirs = starts.zip(ends().skip(1)).filter_map(|(start, end)| path.get(start..end));
    let is_dir = |dir: &str| dir.starts_with('/') && Path::new(dir).leads_to_dir();
    dirs.find(|dir| is_dir(dir) && !dir.split([':', ';']).all(is_dir)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_without_effect_are_reported() {
        for (name, value, expected) in [
            (PRELOAD, "libraries, engines", None),
            (PRELOAD, "", None),
            (PRELOAD, "library,contexts,kernels", Some("`library, kernels`, which has no effect")),
            (PAGES, "/opt/app.pages", None),
            (PAGES, "app.pages", Some("not an absolute path")),
            (VERBOSE_ERRORS, "1", None),
            (VERBOSE_ERRORS, "true", Some("only the value 1")),
            (LOG_LEVEL, "3", None),
            (LOG_LEVEL, "debug", Some("is not a log level")),
            (LOG_LEVEL, "7", Some("is not a log level")),
            (LOG_DESTINATION, "stderr", None),
            (LOG_DESTINATION, "cudnn_%i.log", None),
            (LOG_DESTINATION, "STDERR", Some("cuDNN knows `stderr`")),
            (LOG_DESTINATION, "/", Some("is a directory")),
            (LOG_DESTINATION, "/nowhere/x.log", Some("does not exist")),
            (LOG_DESTINATION, "/dev/null/logs/x.log", Some("is not in a directory")),
        ] {
            let message = ignored_value(name, value).map(|finding| finding.message);
            assert_eq!(message.is_some(), expected.is_some(), "{name}={value}: {message:?}");
            assert!(message.unwrap_or_default().contains(expected.unwrap_or_default()), "{name}={value}");
        }
        assert!(unknown_name("CUDNN_LOADER_PATH").is_some() && unknown_name(PRELOAD).is_none());
    }
}

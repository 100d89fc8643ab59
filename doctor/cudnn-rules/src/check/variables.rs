//! Checks for environment variables that have no effect (C060), such as typos that the loader ignores.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::{self, PathFacts};
use std::path::Path;

use super::finding::{Finding, NO_EFFECT};
use crate::lost_environment::{self, LostEnvironment};
use crate::remedy::{Action, Remedy};

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

/// The variables of this process that belong to cuDNN or the loader, or that name an environment.
pub(super) struct Variables {
    known: Vec<(&'static str, String)>,
    names: Vec<String>,
    /// The environments that do not exist, for example deleted ones.
    lost_environments: Vec<LostEnvironment>,
    log_dir: Option<LogDir>,
}

/// The problem with the destination of the log.
#[derive(Clone, Copy)]
enum LogDir {
    IsDestination,
    Missing,
    /// A file or a dangling link blocks the name of the directory or of a parent.
    Occupied,
}

impl Variables {
    pub(super) fn read() -> Variables {
        let value = |name: &str| Some(facts::variable(name)?.to_string_lossy().into_owned());
        let known: Vec<_> = KNOWN.into_iter().filter_map(|name| Some((name, value(name)?))).collect();
        let mut names: Vec<String> = PREFIXES.into_iter().flat_map(facts::variable_names).collect();
        names.sort();
        let lost = |name| LostEnvironment::in_variable(name, facts::variable(name));
        let destination = known.iter().find(|(name, _)| *name == LOG_DESTINATION);
        let log_dir = destination.and_then(|(_, destination)| LogDir::of(destination.trim()));
        Variables {
            known,
            names,
            lost_environments: lost_environment::VARIABLES.into_iter().filter_map(lost).collect(),
            log_dir,
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let known = self.known.iter().filter_map(|(name, value)| ignored_value(name, value, self.log_dir));
        let unknown = self.names.iter().filter_map(|name| unknown_name(name));
        let lost = self.lost_environments.iter().map(lost_environment);
        known.chain(unknown).chain(lost).collect()
    }
}

impl LogDir {
    fn of(destination: &str) -> Option<LogDir> {
        let path = Path::new(destination);
        if NO_FILES.iter().any(|name| name.eq_ignore_ascii_case(destination)) {
            return None;
        }
        if path.leads_to_dir() || destination.ends_with('/') {
            return Some(LogDir::IsDestination);
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !destination.contains('%'))?;
        let is_occupied = parent.ancestors().any(|dir| dir.path_exists() && !dir.leads_to_dir());
        let problem = if is_occupied { LogDir::Occupied } else { LogDir::Missing };
        (!parent.leads_to_dir()).then_some(problem)
    }
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
fn ignored_value(name: &str, value: &str, log_dir: Option<LogDir>) -> Option<Finding> {
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
        LOG_DESTINATION => destination(value.trim(), log_dir)?,
        _ => return None,
    };
    Some(Finding::new(NO_EFFECT, format!("{name}={} {what}", value.printable())).remedy(remedy))
}

/// Explains why the log is not written to this destination, or is written somewhere unexpected.
fn destination(value: &str, log_dir: Option<LogDir>) -> Option<(String, Remedy)> {
    let set = |text: &str, to: &Path| Remedy::new(text).set(LOG_DESTINATION, to);
    if NO_FILES.contains(&value) {
        return None;
    }
    if let Some(name) = NO_FILES.iter().find(|name| name.eq_ignore_ascii_case(value)) {
        let remedy = set("write the name as cuDNN knows it:", Path::new(name));
        return Some((format!("is the name of a file; cuDNN knows `{name}`"), remedy));
    }
    let path = Path::new(value);
    Some(match log_dir? {
        LogDir::IsDestination => {
            let remedy = set("name a file in it:", &path.join("cudnn.log"));
            ("is a directory: cuDNN writes no log".to_owned(), remedy)
        }
        LogDir::Occupied => {
            let text = "is not in a directory: cuDNN writes no log".to_owned();
            (text, "name a file in a directory that exists".into())
        }
        LogDir::Missing => {
            let remedy = Remedy::new("create the directory:").action(Action::CreateDir(path.parent()?.to_owned()));
            ("is in a directory that does not exist: cuDNN writes no log".to_owned(), remedy)
        }
    })
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
            let message = ignored_value(name, value, LogDir::of(value)).map(|finding| finding.message);
            assert_eq!(message.is_some(), expected.is_some(), "{name}={value}: {message:?}");
            assert!(message.unwrap_or_default().contains(expected.unwrap_or_default()), "{name}={value}");
        }
        assert!(unknown_name("CUDNN_LOADER_PATH").is_some() && unknown_name(PRELOAD).is_none());
    }
}

//! Variables of the loader, of cuDNN's log and of environments whose name or value has no effect: the loader must not break
//! a program for them, so it ignores them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Help, NO_EFFECT};
use crate::escape::Printable;
use crate::shell::{quoted_path, set_variable, unset_variable};

/// The words of [`PRELOAD`].
const PRELOAD_WORDS: [&str; 4] = ["files", "libraries", "contexts", "engines"];
const PRELOAD: &str = "CUDNN_LOADER_PRELOAD";
const PAGES: &str = cudnn_loader::preload::pages::FILE_VARIABLE;
const VERBOSE_ERRORS: &str = "CUDNN_LOADER_VERBOSE_ERRORS";
const LOG_LEVEL: &str = "CUDNN_LOGLEVEL_DBG";
const LOG_DESTINATION: &str = "CUDNN_LOGDEST_DBG";
const OLDER_LEVELS: [&str; 3] = ["CUDNN_LOGERR_DBG", "CUDNN_LOGWARN_DBG", "CUDNN_LOGINFO_DBG"];

/// The names that the loader and cuDNN's log read.
const KNOWN: [&str; 9] = [
    cudnn_probe::DIR_VARIABLE,
    PRELOAD,
    PAGES,
    VERBOSE_ERRORS,
    LOG_LEVEL,
    LOG_DESTINATION,
    OLDER_LEVELS[0],
    OLDER_LEVELS[1],
    OLDER_LEVELS[2],
];

/// The variables by which shells name the active environment.
const ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// The prefixes of these names.
const PREFIXES: [&str; 2] = ["CUDNN_LOADER_", "CUDNN_LOG"];

/// One finding for each variable.
pub(super) fn findings() -> Vec<Finding> {
    let value = |name: &str| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
    let known = KNOWN.into_iter().filter_map(|name| problem(name, &value(name)?, &value));
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))).collect();
    names.sort();
    known
        .chain(names.iter().filter_map(|name| unknown(name)))
        .chain(ENVIRONMENTS.iter().filter_map(|name| stale(name)))
        .collect()
}

/// A variable that names an environment which is not there, as after its directory was moved or removed.
fn stale(name: &str) -> Option<Finding> {
    let root = std::env::var_os(name).map(PathBuf::from).filter(|root| !root.as_os_str().is_empty())?;
    let is_missing = std::fs::metadata(&root).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let message = format!("{name}={} has no effect: there is no such directory", root.printable());
    let help =
        Help::new("activate the environment that you mean, or unset the variable:").command(unset_variable(name));
    is_missing.then(|| Finding::new(NO_EFFECT, message).help(help))
}

/// The problem of the value of a known variable.
fn problem(name: &str, value: &str, others: &dyn Fn(&str) -> Option<String>) -> Option<Finding> {
    let ignored = |what: &str| Finding::new(NO_EFFECT, format!("{name}={} {what}", value.printable()));
    let number = || value.trim().parse::<i64>().ok();
    let set = |text: String, value: &str| Help::new(text).command(set_variable(name, value));
    if name == PRELOAD {
        let words = value.split(',').map(str::trim).filter(|word| !word.is_empty());
        let unknown: Vec<String> =
            words.filter(|word| !PRELOAD_WORDS.contains(word)).map(Printable::printable).collect();
        if unknown.is_empty() {
            return None;
        }
        let (words, is) =
            (unknown.join(", "), if unknown.len() == 1 { "is unknown and has" } else { "are unknown and have" });
        let known = PRELOAD_WORDS.join(", ");
        return Some(
            ignored(&format!("asks for `{words}`, which {is} no effect"))
                .help(set(format!("the known words are {known}; `files` is safe in every program:"), "files")),
        );
    }
    if name == VERBOSE_ERRORS && !["", "0", "1"].contains(&value) {
        return Some(
            ignored("has no effect: only the value 1 turns the reasons on").help(set("turn them on:".into(), "1")),
        );
    }
    if name == PAGES && !value.is_empty() && !Path::new(value).is_absolute() {
        let help = "name the list that `cudnn-doctor preload --keep --to FILE` has written, from the root directory on";
        return Some(ignored("has no effect: it is no absolute path").help(Help::new(help.to_owned())));
    }
    if name == LOG_LEVEL && !matches!(number(), Some(0..=3)) && !value.is_empty() {
        let help = set("the levels are 0 (nothing), 1 (errors), 2 (warnings) and 3 (all calls):".into(), "3");
        return Some(ignored("is no level of the log").help(help));
    }
    if OLDER_LEVELS.contains(&name) {
        if number().is_none() && !value.is_empty() {
            return Some(ignored("has no effect: it takes 0 or 1").help(set("turn it on:".into(), "1")));
        }
        let level = others(LOG_LEVEL).filter(|_| number().is_some_and(|number| number != 0))?;
        let message = format!("has no effect, because {LOG_LEVEL}={} decides", level.printable());
        return Some(ignored(&message).help(Help::new("unset one of the two:").command(unset_variable(name))));
    }
    if name == LOG_DESTINATION {
        return destination(value.trim()).map(|(what, help)| ignored(&what).help(help));
    }
    None
}

/// Why the log is not written to this destination, or not where one would look for it.
fn destination(value: &str) -> Option<(String, Help)> {
    let set = |text: &str, to: &Path| Help::new(text).command(set_variable(LOG_DESTINATION, to));
    let names = ["stdout", "stderr", "NULL"];
    if names.contains(&value) || value.is_empty() {
        return None;
    }
    if let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(value)) {
        let help = set("write the name as cuDNN knows it:", Path::new(name));
        return Some((format!("is the name of a file; cuDNN knows `{name}`"), help));
    }
    let path = Path::new(value);
    if path.is_dir() || value.ends_with('/') {
        let file = path.join("cudnn.log");
        return Some(("is a directory: cuDNN writes no log".into(), set("name a file in it:", &file)));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !value.contains('%'))?;
    let missing = !parent.is_dir();
    let create = || Help::new("create the directory:").command(format!("mkdir -p {}", quoted_path(parent)));
    missing.then(|| ("is in a directory that does not exist: cuDNN writes no log".into(), create()))
}

/// A variable with a name that nothing reads.
fn unknown(name: &str) -> Option<Finding> {
    let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix)).filter(|_| !KNOWN.contains(&name))?;
    let known: Vec<&str> = KNOWN.into_iter().filter(|known| known.starts_with(prefix)).collect();
    let help = format!("the known names are {}", known.join(", "));
    Some(Finding::new(NO_EFFECT, format!("{name} has no effect: nothing reads a variable of this name")).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_no_effect_is_reported() {
        let nothing = |_: &str| None;
        for (name, value, expected) in [
            (PRELOAD, "libraries, engines", None),
            (PRELOAD, "", None),
            (PRELOAD, "library,contexts,kernels", Some("`library, kernels`, which are unknown")),
            (PAGES, "/opt/app.pages", None),
            (PAGES, "app.pages", Some("no absolute path")),
            (VERBOSE_ERRORS, "1", None),
            (VERBOSE_ERRORS, "true", Some("only the value 1")),
            (LOG_LEVEL, "3", None),
            (LOG_LEVEL, "debug", Some("no level")),
            (LOG_LEVEL, "7", Some("no level")),
            (LOG_DESTINATION, "stderr", None),
            (LOG_DESTINATION, "cudnn_%i.log", None),
            (LOG_DESTINATION, "STDERR", Some("cuDNN knows `stderr`")),
            (LOG_DESTINATION, "/", Some("is a directory")),
            (LOG_DESTINATION, "/nowhere/x.log", Some("does not exist")),
            (OLDER_LEVELS[0], "1", None),
            (OLDER_LEVELS[0], "yes", Some("takes 0 or 1")),
        ] {
            let found = problem(name, value, &nothing);
            assert_eq!(found.is_some(), expected.is_some(), "{name}={value}: {found:?}");
            let message = found.map(|finding| finding.message).unwrap_or_default();
            assert!(message.contains(expected.unwrap_or_default()), "{message}");
        }
        let both = problem(OLDER_LEVELS[1], "1", &|name| (name == LOG_LEVEL).then(|| "0".into()));
        assert!(both.is_some_and(|finding| finding.message.contains("CUDNN_LOGLEVEL_DBG=0 decides")));
        assert!(unknown("CUDNN_LOADER_PATH").is_some() && unknown(PRELOAD).is_none());
    }
}

//! `env`: the line for the shell that makes an installation the one that is used, by this project's loader and by programs
//! that load cuDNN by its bare name.

use std::path::{Path, PathBuf};

use cudnn_probe::{DIR_VARIABLE, Environment, Flavour, Report, Requirements, Search, examine, find};
use serde_json::json;

use crate::output::{Format, Outcome, document, fail, say};

/// The options of `env`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of an installation, or the root of an environment that has one. Without it: the one that would be used.
    folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Environment::current().without_executable();
    let search = Search::new(environment.clone());
    let chosen = match &arguments.folder {
        None => find(&search, &Requirements::default()).installation,
        Some(root) => search.below(root).iter().find_map(|candidate| examine(candidate, &Requirements::default()).ok()),
    };
    let Some(chosen) = chosen else {
        let why = "No cuDNN that can be used is there: cudnn-doctor list says what is, and what is wrong with it.";
        return fail(format, why);
    };
    let lines = lines(&chosen.folder);
    match format {
        Format::Json => document(&json!({ "schema": 1, "folder": chosen.folder.to_string_lossy(), "lines": lines })),
        Format::Text => lines.iter().for_each(|line| say!("{line}")),
    }
    // To stderr: the output is for `eval`.
    if Report::of(&chosen.folder, &environment).is_some_and(|report| report.flavour != Flavour::Full) {
        eprintln!("Note: this one is not a full cuDNN; programs that need all of it fail with it.");
    }
    Outcome::Fine
}

fn lines(folder: &Path) -> Vec<String> {
    let folder = quoted(&folder.to_string_lossy());
    vec![
        format!("export {DIR_VARIABLE}={folder}"),
        format!("export LD_LIBRARY_PATH={folder}\"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\""),
    ]
}

/// As a word of the shell, whatever is in it.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_is_one_word_of_the_shell_whatever_is_in_it() {
        assert_eq!(quoted("/opt/cudnn-9.1/lib"), "/opt/cudnn-9.1/lib");
        assert_eq!(quoted("/a b/$(rm)/it's"), "'/a b/$(rm)/it'\\''s'");
    }
}

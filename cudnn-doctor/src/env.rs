//! `env`: the line for the shell that makes an installation the one that is used, by this project's loader and by programs
//! that load cuDNN by its bare name.

use std::path::PathBuf;

use cudnn_probe::{DIR_VARIABLE, Host, InstallationReport, Requirements, Search, Variant, check_dir, select};
use serde_json::json;

use crate::output::{Format, Outcome, document, fail, outln, remark};
use crate::shell::{before_others, quoted};

/// The options of `env`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of an installation, or the root of an environment that has one. Without it: the one that would be used.
    folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let environment = Host::current().without_executable();
    let search = Search::new(environment.clone());
    let chosen = match &arguments.folder {
        None => select(&search, &Requirements::default()).installation,
        Some(root) => {
            search.under_root(root).iter().find_map(|candidate| check_dir(candidate, &Requirements::default()).ok())
        }
    };
    let Some(chosen) = chosen else {
        let why = "No cuDNN that can be used is there: cudnn-doctor list says what is, and what is wrong with it.";
        return fail(format, why);
    };
    let is_for_lists = |folder: &str| !folder.contains([':', ';', '$']) && !folder.chars().any(char::is_control);
    let Some(folder) = chosen.dir.to_str().filter(|folder| is_for_lists(folder)) else {
        let why = "has a name that LD_LIBRARY_PATH cannot take: one with a colon, a semicolon, a dollar, a control \
                   character, or bytes that are no UTF-8. Make a link to it of another name, and name that.";
        return fail(format, format!("{:?} {why}", chosen.dir));
    };
    let lines = [format!("export {DIR_VARIABLE}={}", quoted(folder)), before_others(&chosen.dir)];
    match format {
        Format::Json => document(&json!({ "schema": 1, "folder": folder, "lines": lines })),
        Format::Text => lines.iter().for_each(|line| outln!("{line}")),
    }
    // To stderr: the output is for `eval`.
    if InstallationReport::read(&chosen.dir, &environment).is_some_and(|report| report.variant != Variant::Full) {
        remark("Note: this one is not a full cuDNN; programs that need all of it fail with it.");
    }
    Outcome::Fine
}

//! What the user has decided in pip's variables and configuration.

use std::path::Path;

use cudnn_cli::escape::Printable;

use super::decision::Decision;
use super::requirements_file::decisions_in_files;
use crate::packages::pip_options::{PipOption, options_in_files, value_in_variables};

/// Returns the setting by which the pip of the Python with this prefix would change another place, other packages or
/// nothing, as a clause. The commands ignore such variables, but not the files, unless they name a directory themselves.
pub(super) fn redirection(prefix: Option<&Path>, has_directory: bool) -> Option<String> {
    let is_harmless = |option: &PipOption| option.name == "target" && has_directory;
    options_in_files(prefix).into_iter().filter(|option| !is_harmless(option)).find_map(|option| {
        let changed = option.redirection()?;
        let line = format!("{} = {}", option.name, option.value).printable();
        Some(format!("{} has `{line}`, so that pip would change {changed}", option.file.printable()))
    })
}

/// Returns the decisions in the files that pip's variables name, or else those that its configuration names.
pub(super) fn decisions(prefix: Option<&Path>) -> Vec<Decision> {
    const OPTION: &str = "constraint";
    let in_variables = value_in_variables(OPTION);
    if !in_variables.is_empty() {
        return decisions_in_files(&in_variables);
    }
    let in_settings = options_in_files(prefix).into_iter().filter(|option| option.name == OPTION);
    in_settings.flat_map(|option| decisions_in_files(&option.value)).collect()
}

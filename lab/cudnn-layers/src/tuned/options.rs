//! Selects the files from the environment or the program.

use std::ffi::c_void;
use std::path::PathBuf;

use cudnn_os::environment::is_secure_execution;
use cudnn_os::files::resolve_beside;
use cudnn_os::objects::{absolute, read_list};
use cudnn_probe::layers::TUNED_FILE;
use cudnn_store::choices::Choices;

use crate::configured::{configured_in_code, variable};

/// The environment variable with the files, separated like the directories in `PATH`.
pub const VARIABLE: &str = "CUDNN_TUNED";
/// The environment variable that removes all engines except the best one and the heuristics' choice, if it is `1`.
pub const ONLY_VARIABLE: &str = "CUDNN_TUNED_ONLY";

/// The options of the layer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The files with rankings. The first file that ranks a graph is used.
    pub files: Vec<PathBuf>,
    /// Return only the best engine and the heuristics' choice, for programs that measure all engines themselves.
    pub only: bool,
}

configured_in_code!(Options);

impl Options {
    /// Returns the options from the program or the environment, or an error if no files are selected.
    pub(super) fn chosen() -> Result<Options, String> {
        configured().map_or_else(Options::from_environment, Ok)
    }

    fn from_environment() -> Result<Options, String> {
        let list = variable(VARIABLE).unwrap_or_default();
        let mut files: Vec<PathBuf> =
            std::env::split_paths(&list).filter(|file| !file.as_os_str().is_empty()).collect();
        if files.is_empty() {
            files.extend(installed());
        }
        match files.is_empty() {
            true if is_secure_execution() => Err(format!("{VARIABLE} is ignored in secure-execution mode")),
            true => Err(format!("{VARIABLE} is not set: it selects files that `cudnn-lab tune` has written")),
            false => Ok(Options { files, only: variable(ONLY_VARIABLE).is_some_and(|value| value == "1") }),
        }
    }

    /// Reads the files. Returns the rankings of readable files, and the problems of the others.
    pub(super) fn read(&self) -> (Choices, Vec<String>) {
        let mut problems = Vec::new();
        let read = |file: &PathBuf| Choices::read_rankings(file).map_err(|problem| problems.push(problem)).ok();
        let read = self.files.iter().rev().filter_map(read);
        // A file overrides the files after it.
        let choices = read.fold(Choices::default(), Choices::merge);
        (choices, problems)
    }
}

/// Returns the file next to the library that contains this code, if it comes from a trusted user.
fn installed() -> Option<PathBuf> {
    let this_code = installed as *const c_void;
    let library = read_list().into_iter().find(|library| library.contains(this_code) && !library.is_program())?;
    let library = absolute(library.path);
    let dir = library.parent()?;
    resolve_beside(&dir.join(TUNED_FILE), dir).filter(|file| file.is_file())
}

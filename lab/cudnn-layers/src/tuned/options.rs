//! Selects the files from the environment or the program.

use std::path::PathBuf;

use cudnn_os::environment::is_secure_execution;
use cudnn_plan_store::choices::Choices;

use crate::configured::Configured;

/// The environment variable with the files, separated like the directories in `PATH`.
pub const VARIABLE: &str = "CUDNN_TUNED";
/// The environment variable that leaves only the best engine and the heuristics' choice, if it is `1`.
pub const ONLY_VARIABLE: &str = "CUDNN_TUNED_ONLY";

/// What the layer does.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The files with rankings. The first file that ranks a graph decides.
    pub files: Vec<PathBuf>,
    /// Returns only the best engine and the heuristics' choice, for programs that measure all engines themselves.
    pub only: bool,
}

static CONFIGURED: Configured<Options> = Configured::new();

/// Sets the options in code, instead of from [`VARIABLE`] and [`ONLY_VARIABLE`]. Call this before you add the layer,
/// because later changes have no effect.
pub fn configure(options: Options) {
    CONFIGURED.set(options);
}

impl Options {
    /// Returns the program's options, or else those of the environment.
    ///
    /// # Errors
    /// Returns the reason if no files are selected.
    pub(super) fn chosen() -> Result<Options, String> {
        if let Some(options) = CONFIGURED.get() {
            return Ok(options);
        }
        if is_secure_execution() {
            return Err(format!("{VARIABLE} of a less privileged user is ignored in secure-execution mode"));
        }
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        let files: Vec<PathBuf> = std::env::split_paths(&value).filter(|file| !file.as_os_str().is_empty()).collect();
        if files.is_empty() {
            return Err(format!("{VARIABLE} is not set: it selects files that `cudnn-lab tune` has written"));
        }
        Ok(Options { files, only: std::env::var_os(ONLY_VARIABLE).is_some_and(|value| value == "1") })
    }

    /// Reads the files. Returns the rankings of those that can be read, and what is wrong with the others.
    pub(super) fn read(&self) -> (Choices, Vec<String>) {
        let mut problems = Vec::new();
        let read = self.files.iter().rev().filter_map(|file| Choices::read(file).map_err(|it| problems.push(it)).ok());
        // A file replaces the rankings of the files after it.
        let choices = read.fold(Choices::default(), Choices::merge);
        (choices, problems)
    }
}

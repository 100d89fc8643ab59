//! Answers the questions of a program that loads DLLs itself, based on the [`ProcessFacts`] of its process.
//!
//! The functions also exist without the feature `windows`, so that the same program compiles for Linux. They
//! return `None` there, and do not include the code of the simulation.
//!
//! ```no_run
//! use cudnn_probe::Host;
//! use cudnn_probe::dll_search::{ProcessFacts, in_process};
//!
//! let facts = ProcessFacts::from_host(&Host::current());
//! if let Some(obstacle) = in_process::obstacle(r"C:\cudnn\bin\cudnn_ops64_9.dll".as_ref(), &facts) {
//!     println!("{}", obstacle.text);
//! }
//! ```

use std::path::{Path, PathBuf};

use super::ProcessFacts;
#[cfg(feature = "windows")]
use super::{Failure, Mode, Resolution, Rule, Simulation, Symbol, explain};

/// The reason why Windows cannot load a DLL.
#[derive(Debug)]
pub struct Obstacle {
    /// The reason as a sentence without a full stop.
    pub text: String,
    /// The DLL or symbol that a DLL needs, if one is missing.
    pub missing: Option<Missing>,
}

/// A dependency that is missing.
#[derive(Debug)]
pub enum Missing {
    /// The name of a DLL.
    Dll(String),
    /// The name of a symbol, and of the DLL that should export it.
    Symbol(String, Option<String>),
}

/// The file that opening a name would choose.
#[derive(Debug)]
pub struct Choice {
    /// The file.
    pub path: PathBuf,
    /// Whether Windows can load it.
    pub is_usable: bool,
    /// Whether it is in the working directory.
    pub is_in_working_dir: bool,
}

/// Returns the first reason why loading a DLL fails, or `None` if the files show none.
#[must_use]
#[cfg(feature = "windows")]
pub fn obstacle(path: &Path, facts: &ProcessFacts) -> Option<Obstacle> {
    let failure = explain(path, facts)?;
    let text = failure.to_string();
    let missing = match failure {
        Failure::MissingDll { name, needed_by: Some(_) } => Some(Missing::Dll(name)),
        Failure::MissingSymbol { symbol: Symbol::Name(name), dll, .. } => {
            let library = dll.file_name().map(|name| name.to_string_lossy().into_owned());
            Some(Missing::Symbol(name, library))
        }
        _ => None,
    };
    Some(Obstacle { text, missing })
}

/// Returns `None`.
#[must_use]
#[cfg(not(feature = "windows"))]
pub fn obstacle(_: &Path, _: &ProcessFacts) -> Option<Obstacle> {
    None
}

/// Returns the file that opening this name would choose, or `None` if there is no such file. Assumes that the DLL that
/// opens it adds no directories.
#[must_use]
#[cfg(feature = "windows")]
pub fn resolve(facts: &ProcessFacts, name: &str) -> Option<Choice> {
    let mut simulation = Simulation::new(facts.clone());
    simulation.open(Path::new(name), Mode::Standard);
    let (path, rule, is_usable) = match &simulation.lookups().first()?.resolution {
        Resolution::Found { path, rule } => (path.clone(), *rule, true),
        Resolution::Unusable { path, rule } => (path.clone(), *rule, false),
        _ => return None,
    };
    Some(Choice { path, is_usable, is_in_working_dir: rule == Rule::WorkingDir })
}

/// Returns `None`.
#[must_use]
#[cfg(not(feature = "windows"))]
pub fn resolve(_: &ProcessFacts, _: &str) -> Option<Choice> {
    None
}

//! What the search asks of the world: variables, the executable, the file system's root. A value, so that a test can
//! make up another world.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The world in which a search takes place.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Option<BTreeMap<OsString, OsString>>,
    executable: Option<PathBuf>,
    root: Option<PathBuf>,
    privileged: bool,
}

impl Environment {
    /// The real one: this process's variables and executable, and the real file system.
    #[must_use]
    pub fn current() -> Self {
        Environment { executable: std::env::current_exe().ok(), ..Environment::default() }
    }

    /// One with no variables and no executable, in which absolute folders of the system lie below `root`.
    #[must_use]
    pub fn fake(root: impl Into<PathBuf>) -> Self {
        Environment { variables: Some(BTreeMap::new()), root: Some(root.into()), ..Environment::default() }
    }

    /// Sets a variable of a made-up environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    /// Sets the executable.
    #[must_use]
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = Some(path.into());
        self
    }

    /// Says that the process runs with more rights than the user who started it (setuid, file capabilities), so that
    /// no variable is to be believed.
    #[must_use]
    pub fn privileged(mut self, privileged: bool) -> Self {
        self.privileged = privileged;
        self
    }

    /// A variable's value; none when it is unset or empty, or when the process is privileged.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        if self.privileged {
            return None;
        }
        let value = match &self.variables {
            Some(variables) => variables.get(name.as_ref() as &std::ffi::OsStr).cloned(),
            None => std::env::var_os(name),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The folder of the running executable.
    pub(crate) fn program_folder(&self) -> Option<&Path> {
        self.executable.as_deref()?.parent()
    }

    /// An absolute path of the system, in this world.
    pub(crate) fn system(&self, path: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        }
    }
}

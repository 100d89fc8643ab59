//! The machine as the search sees it: environment variables, the executable, the root of the file system. It is a
//! value, so that a test can replace it. It must not know where cuDNN is installed.

use crate::facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_os::environment::{initial_value, without_quotes};

/// The machine, as the search sees it: [`Host::current`] for the real one, [`Host::sandbox`] for a test's.
#[derive(Clone, Debug, Default)]
pub struct Host {
    variables: Option<Vec<(OsString, OsString)>>,
    /// Variables with another value than in `variables` or the process.
    replaced: Vec<(String, OsString)>,
    executable: Option<PathBuf>,
    root: Option<PathBuf>,
    secure_execution: bool,
}

impl Host {
    /// The real machine: this process's environment variables and executable, and the real file system.
    #[must_use]
    pub fn current() -> Self {
        Host { executable: facts::current_exe().ok(), ..Host::default() }
    }

    /// A machine without environment variables or an executable, whose system directories (`/usr/lib` and so on) are
    /// below `root`.
    #[must_use]
    pub fn sandbox(root: impl Into<PathBuf>) -> Self {
        Host { variables: Some(Vec::new()), root: Some(root.into()), ..Host::default() }
    }

    /// Sets an environment variable. After this the search sees only variables that were set this way.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        let variables = self.variables.get_or_insert_default();
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value.into()));
        self
    }

    /// Replaces the value of one environment variable. The search still sees the others.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.replaced.retain(|(known, _)| known != name);
        self.replaced.push((name.to_owned(), value.into()));
        self
    }

    /// Reads these environment variables now. After this the search sees these values, and no other variables.
    #[must_use]
    pub fn with_variables(mut self, names: &[&str]) -> Self {
        let mut variables = Vec::new();
        for name in names {
            if let Some(value) = self.variable(name) {
                variables.push((OsString::from(*name), value));
            }
        }
        self.variables = Some(variables);
        self.replaced.clear();
        self
    }

    /// Sets the path of the executable, next to which the search looks.
    #[must_use]
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = Some(path.into());
        self
    }

    /// Removes the executable: a build script does not want the search to look next to itself.
    #[must_use]
    pub fn without_executable(mut self) -> Self {
        self.executable = None;
        self
    }

    /// Declares that the process runs in secure-execution mode (setuid, file capabilities; `AT_SECURE`). The search
    /// then ignores all environment variables and does not look next to the executable.
    #[must_use]
    pub fn secure_execution(mut self, is_secure: bool) -> Self {
        self.secure_execution = is_secure;
        self
    }

    /// A variable's value; `None` if it is unset or empty, or in secure-execution mode.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<OsString> {
        if self.secure_execution {
            return None;
        }
        let replaced = self.replaced.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let value = match &self.variables {
            _ if replaced.is_some() => replaced,
            Some(variables) => variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()),
            // ld.so uses the value that the process was started with.
            None if name == "LD_LIBRARY_PATH" => {
                facts::ask("variable at start", name, || initial_value(name).unwrap_or_else(|| std::env::var_os(name)))
            }
            None => facts::variable(name),
        };
        // Windows splits `PATH` with regard to quotes.
        let value = if name == "PATH" { value } else { value.map(without_quotes) };
        value.filter(|value| !value.is_empty())
    }

    pub(crate) fn is_secure_execution(&self) -> bool {
        self.secure_execution
    }

    /// The directory of the executable.
    pub(crate) fn program_dir(&self) -> Option<&Path> {
        self.executable.as_deref()?.parent()
    }

    /// An absolute path of the system, below the sandbox's root if there is one.
    #[must_use]
    pub fn system(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(below)) => root.join(below),
            _ => path.to_owned(),
        }
    }

    /// The path without the sandbox's root; `None` if it is outside of the sandbox.
    #[must_use]
    pub fn strip_root(&self, path: &Path) -> Option<PathBuf> {
        match &self.root {
            Some(root) => {
                let root = facts::canonicalize(root).unwrap_or_else(|_| root.clone());
                Some(Path::new("/").join(path.strip_prefix(root).ok()?))
            }
            None => Some(path.to_owned()),
        }
    }
}

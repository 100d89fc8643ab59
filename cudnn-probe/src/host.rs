//! Describes the machine to search: environment variables, the executable, and the root of the file system. Tests can
//! replace all of them.

use crate::facts;
use crate::platform::Os;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_os::environment::{initial_value, is_secure_execution, without_quotes};

/// The machine to search. Use [`Host::current`] for the real machine and [`Host::sandbox`] in tests.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Variables that were set or captured, which override the environment of the process.
    variables: Vec<(String, OsString)>,
    /// Whether other variables are unset. Otherwise the environment of the process contains them.
    has_own_environment: bool,
    executable: Option<PathBuf>,
    root: Option<PathBuf>,
    secure_execution: bool,
}

impl Host {
    /// Returns the real machine, with the environment and executable of this process. If the process runs in
    /// secure-execution mode, so does this host.
    #[must_use]
    pub fn current() -> Self {
        Host {
            executable: facts::current_exe().ok(),
            secure_execution: facts::ask("secure execution", "", is_secure_execution),
            ..Host::default()
        }
    }

    /// Creates a machine without environment variables or executable. The system directories (such as `/usr/lib`) are
    /// below `root`.
    #[must_use]
    pub fn sandbox(root: impl Into<PathBuf>) -> Self {
        Host { has_own_environment: true, root: Some(root.into()), ..Host::default() }
    }

    /// Sets an environment variable. Other variables stay the same.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Captures these environment variables. The search then uses the captured values and ignores all other variables.
    #[must_use]
    pub fn with_variables(mut self, names: &[&str]) -> Self {
        let captured = names.iter().filter_map(|name| Some((String::from(*name), self.variable(name)?)));
        self.variables = captured.collect();
        self.has_own_environment = true;
        self
    }

    /// Sets the path of the executable. The search includes the directory of the executable.
    #[must_use]
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = Some(path.into());
        self
    }

    /// Removes the executable, which excludes the directory of a build script from the search.
    #[must_use]
    pub fn without_executable(mut self) -> Self {
        self.executable = None;
        self
    }

    /// Sets whether the process runs in secure-execution mode (setuid, file capabilities; `AT_SECURE`). In this mode,
    /// the search ignores all environment variables and the directory of the executable.
    #[must_use]
    pub fn secure_execution(mut self, is_secure: bool) -> Self {
        self.secure_execution = is_secure;
        self
    }

    /// Returns the value of a variable. Returns `None` if the variable is unset or empty, and always in
    /// secure-execution mode.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<OsString> {
        if self.secure_execution {
            return None;
        }
        let value = match self.variables.iter().find(|(known, _)| known == name) {
            Some((_, value)) => Some(value.clone()),
            None if self.has_own_environment => None,
            // ld.so uses the value from the start of the process.
            None if name == "LD_LIBRARY_PATH" => {
                facts::ask("variable at start", name, || initial_value(name).unwrap_or_else(|| std::env::var_os(name)))
            }
            None => facts::variable(name),
        };
        // Windows interprets quotes in `PATH` itself.
        let value = if name == "PATH" { value } else { value.map(without_quotes) };
        value.filter(|value| !value.is_empty())
    }

    /// Returns the directory of `pip install --user` on this system: `PYTHONUSERBASE`, `~/.local`, or `%APPDATA%\Python`.
    /// Returns `None` if it is unknown or relative.
    #[must_use]
    pub fn user_base(&self, os: Os) -> Option<PathBuf> {
        let (variable, below) = if os == Os::Windows { ("APPDATA", "Python") } else { ("HOME", ".local") };
        let default = || Some(Path::new(&self.variable(variable)?).join(below));
        self.variable("PYTHONUSERBASE").map(PathBuf::from).or_else(default).filter(|base| base.is_absolute())
    }

    pub(crate) fn is_secure_execution(&self) -> bool {
        self.secure_execution
    }

    /// Returns the directory of the executable.
    pub(crate) fn program_dir(&self) -> Option<&Path> {
        self.executable.as_deref()?.parent()
    }

    /// Returns whether this is the real machine, and variables that were not set with [`env`](Host::env) come from the
    /// environment of this process.
    #[must_use]
    pub fn uses_process_environment(&self) -> bool {
        self.root.is_none() && !self.has_own_environment
    }

    /// Returns an absolute system path, relative to the sandbox root if there is one.
    #[must_use]
    pub fn system(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(below)) => root.join(below),
            _ => path.to_owned(),
        }
    }

    /// Removes the sandbox root from a path. Returns `None` if the path is outside of the sandbox.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_set_leaves_the_others_alone() {
        let host = Host::current().env("CARGO_PKG_NAME", "other").env("CARGO_PKG_NAME", "last");
        assert_eq!(host.variable("CARGO_PKG_NAME").unwrap(), "last");
        assert_eq!(host.variable("CARGO_PKG_VERSION").unwrap(), env!("CARGO_PKG_VERSION"));
        let captured = host.with_variables(&["CARGO_PKG_NAME"]).env("A", "b");
        assert_eq!(["CARGO_PKG_NAME", "A"].map(|name| captured.variable(name).unwrap()), ["last", "b"]);
        assert_eq!(captured.variable("CARGO_PKG_VERSION"), None);
        assert_eq!(Host::sandbox("/").env("A", "b").variable("CARGO_PKG_VERSION"), None);
    }

    #[test]
    #[cfg(feature = "serde")]
    fn the_current_host_may_be_in_secure_execution_mode() {
        let facts = serde_json::json!({ "secure execution": { "": true }, "variable": { "A": "b" } });
        let facts = facts::Facts::from_value(facts).unwrap();
        assert_eq!(facts.within(|| Host::current().variable("A")), None);
        assert!(!Host::current().is_secure_execution());
    }
}

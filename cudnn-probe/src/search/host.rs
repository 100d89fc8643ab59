//! What the search asks of the world: variables, the executable, the file system's root. A value, so that a test can
//! make up another world.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The world in which a search takes place.
#[derive(Clone, Debug, Default)]
pub struct Host {
    variables: Option<BTreeMap<OsString, OsString>>,
    executable: Option<PathBuf>,
    root: Option<PathBuf>,
    secure_execution: bool,
}

impl Host {
    /// The real one: this process's variables and executable, and the real file system.
    #[must_use]
    pub fn current() -> Self {
        Host { executable: std::env::current_exe().ok(), ..Host::default() }
    }

    /// One with no variables and no executable, in which absolute folders of the system lie below `root`.
    #[must_use]
    pub fn sandbox(root: impl Into<PathBuf>) -> Self {
        Host { variables: Some(BTreeMap::new()), root: Some(root.into()), ..Host::default() }
    }

    /// Sets a variable of a made-up environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    /// Sets the executable.
    #[must_use]
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = Some(path.into());
        self
    }

    /// Forgets the executable: for a build script, beside which nothing is to be found.
    #[must_use]
    pub fn without_executable(mut self) -> Self {
        self.executable = None;
        self
    }

    /// Says that the process runs with more rights than the user who started it (setuid, file capabilities), so that
    /// no variable is to be believed.
    #[must_use]
    pub fn secure_execution(mut self, privileged: bool) -> Self {
        self.secure_execution = privileged;
        self
    }

    /// A variable's value; none when it is unset or empty, or when the process is privileged.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        if self.secure_execution {
            return None;
        }
        let value = match &self.variables {
            Some(variables) => variables.get(name.as_ref() as &std::ffi::OsStr).cloned(),
            // The linker knows the value that the process was started with.
            None if name == "LD_LIBRARY_PATH" => initial_env(name).unwrap_or_else(|| std::env::var_os(name)),
            None => std::env::var_os(name),
        };
        value.filter(|value| !value.is_empty())
    }

    /// Does the process run with more rights than its user?
    pub(crate) fn is_secure_execution(&self) -> bool {
        self.secure_execution
    }

    /// The folder of the running executable.
    pub(crate) fn program_dir(&self) -> Option<&Path> {
        self.executable.as_deref()?.parent()
    }

    /// An absolute path of the system, in this world.
    pub(crate) fn system(&self, path: &str) -> PathBuf {
        self.system_path(Path::new(path))
    }

    /// The path as the system in this world would call it: without the root of a made-up one.
    pub(crate) fn strip_root(&self, path: &Path) -> Option<PathBuf> {
        match &self.root {
            Some(root) => {
                let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.clone());
                Some(Path::new("/").join(path.strip_prefix(root).ok()?))
            }
            None => Some(path.to_owned()),
        }
    }

    /// As [`Environment::system`].
    pub(crate) fn system_path(&self, path: &Path) -> PathBuf {
        match (&self.root, path.strip_prefix("/")) {
            (Some(root), Ok(below)) => root.join(below),
            _ => path.to_owned(),
        }
    }
}

/// The value that a variable had when this process was started; the outer `None` where that cannot be learnt.
fn initial_env(name: &str) -> Option<Option<OsString>> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStringExt;
        let variables = std::fs::read("/proc/self/environ").ok().filter(|bytes| !bytes.is_empty())?;
        let mut entries = variables.split(|byte| *byte == 0);
        let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        Some(value.map(|value| OsString::from_vec(value.to_vec())))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = name;
        None
    }
}

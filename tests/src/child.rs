//! Child processes for code that may abort. The child is usually `driver`, which calls functions by name.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

/// The library that the child calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// This project's loader.
    Loader,
    /// A library with the name of NVIDIA's shim, opened by its path.
    Shim,
}

/// A child process that has not started yet.
#[derive(Debug)]
pub struct Child {
    command: Command,
    arguments: Vec<OsString>,
}

/// The result of a child process: how it ended, and what it printed.
#[derive(Debug)]
pub struct ChildOutput {
    /// The signal that ended the child; an abort is 6 (SIGABRT).
    pub signal: Option<i32>,
    /// The exit code, unless a signal ended the child.
    pub code: Option<i32>,
    /// Its output to stdout.
    pub stdout: String,
    /// Its output to stderr.
    pub stderr: String,
}

impl Child {
    /// A child that uses the cuDNN in this directory. Its environment has no other variable that affects the search.
    ///
    /// `program` is `env!("CARGO_BIN_EXE_driver")` of the calling test.
    #[must_use]
    pub fn new(program: &str, subject: Subject, dir: &Path) -> Self {
        let mut child = Child::bare(program);
        match subject {
            Subject::Loader => {
                child.command.env(cudnn_loader::DIR_VARIABLE, dir);
            }
            Subject::Shim => {
                child.arguments.push("--shim".into());
                child.arguments.push(dir.join("libcudnn.so.9").into());
            }
        }
        child
    }

    /// A child with an empty environment, which uses the first cuDNN that it finds.
    #[must_use]
    pub fn bare(program: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut command = Command::new(program);
        command.env_clear();
        Child { command, arguments: Vec::new() }
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument before those of [`Child::run`].
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn within(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Drops the privileges of root, if this process has them.
    #[must_use]
    pub fn without_privileges(mut self) -> Self {
        // SAFETY: geteuid has no arguments and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            self.command.uid(65534).gid(65534);
        }
        self
    }

    /// Runs the child with these arguments.
    ///
    /// # Panics
    /// When it does not start.
    pub fn run(mut self, args: &[&str]) -> ChildOutput {
        let output = self.command.args(self.arguments).args(args).output().expect("the child starts");
        ChildOutput {
            signal: output.status.signal(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl ChildOutput {
    /// The value that a function returned, as the child printed it.
    #[must_use]
    pub fn returned(&self, function: &str) -> Option<&str> {
        self.stdout.lines().find_map(|line| line.strip_prefix(function)?.strip_prefix(" = "))
    }

    /// The error text that the child printed after the result of a function.
    #[must_use]
    pub fn last_error(&self, function: &str) -> String {
        let mut lines = self.stdout.lines().skip_while(|line| !line.starts_with(&format!("{function} = ")));
        lines.next();
        let message: Vec<&str> = lines.map_while(|line| line.strip_prefix("  | ")).collect();
        message.join("\n")
    }
}

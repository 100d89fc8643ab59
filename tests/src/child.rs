//! Runs child processes for code that may abort. The child is usually `driver`, which calls functions by name.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The library that the child calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// This project's loader.
    Loader,
    /// A library with the name of NVIDIA's shim, opened by path.
    Shim,
}

/// A child process before it starts.
#[derive(Debug)]
pub struct Child {
    command: Command,
    arguments: Vec<OsString>,
    /// Whether the output shows that an emulator failed, so that the child has to run again.
    failed: fn(&ChildOutput) -> bool,
}

/// The number of attempts if the emulator fails.
const ATTEMPTS: usize = 3;

/// The exit status and output of a child process.
#[derive(Debug)]
pub struct ChildOutput {
    /// The signal that killed the child, such as 6 (SIGABRT) for an abort.
    pub signal: Option<i32>,
    /// The exit code, unless a signal killed the child.
    pub code: Option<i32>,
    /// The output to stdout.
    pub stdout: String,
    /// The output to stderr.
    pub stderr: String,
}

impl Child {
    /// Returns a child that uses the cuDNN in this directory, without other variables that affect the search. `program`
    /// is `env!("CARGO_BIN_EXE_driver")` of the calling test.
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

    /// Returns a child with an empty environment, which uses the first cuDNN that it finds.
    pub fn bare(program: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut command = Command::new(program);
        command.env_clear();
        Child { command, arguments: Vec::new(), failed: |_| false }
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument before the arguments of [`Child::run`].
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets the working directory.
    pub fn within(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Drops root privileges, if this process has them.
    pub fn without_privileges(mut self) -> Self {
        if cudnn_os::rights::is_root() {
            self.command.uid(65534).gid(65534);
        }
        self
    }

    /// Sets how to recognize that an emulator failed.
    pub(crate) fn again_if(mut self, failed: fn(&ChildOutput) -> bool) -> Self {
        self.failed = failed;
        self
    }

    /// Runs the child with these arguments.
    pub fn run(mut self, args: &[&str]) -> ChildOutput {
        self.command.args(self.arguments).args(args);
        let mut run = || ChildOutput::from(self.command.output().expect("the child starts"));
        let mut output = run();
        for _ in 1..ATTEMPTS {
            if !(self.failed)(&output) {
                break;
            }
            output = run();
        }
        output
    }

    /// Like [`Child::run`], and panics unless the child exits with 0.
    #[track_caller]
    pub fn run_successfully(self, args: &[&str]) -> ChildOutput {
        let output = self.run(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output:#?}");
        output
    }

    /// Like [`Child::run`], but kills the child when it opens this pipe, because it would wait forever for a writer. A
    /// regular file has no effect.
    pub fn run_until_pipe_opens(mut self, args: &[&str], pipe: &Path) -> ChildOutput {
        if !std::fs::metadata(pipe).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
            return self.run(args);
        }
        let command = self.command.args(self.arguments).args(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the child starts");
        let writer = || File::options().write(true).custom_flags(libc::O_NONBLOCK).open(pipe);
        while child.try_wait().expect("the child can be waited for").is_none() {
            // Opening a pipe for writing blocks until it has a reader.
            if let Ok(_writer) = writer() {
                // Keep the pipe open until the child has exited. Otherwise it would reach the end of the file.
                let _ = child.kill();
                let _ = child.wait();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait_with_output().expect("the child has exited").into()
    }
}

impl From<Output> for ChildOutput {
    fn from(output: Output) -> Self {
        ChildOutput {
            signal: output.status.signal(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl ChildOutput {
    /// Returns the function's result as the child printed it.
    pub fn returned(&self, function: &str) -> Option<&str> {
        self.stdout.lines().find_map(|line| line.strip_prefix(function)?.strip_prefix(" = "))
    }

    /// Returns the error text that the child printed after the result of a function.
    pub fn last_error(&self, function: &str) -> String {
        let mut lines = self.stdout.lines().skip_while(|line| !line.starts_with(&format!("{function} = ")));
        lines.next();
        let message: Vec<&str> = lines.map_while(|line| line.strip_prefix("  | ")).collect();
        message.join("\n")
    }
}

//! Stubs for systems that are neither Linux nor Windows: no child process is started.

use std::io::{Error, ErrorKind};

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "processes can be started on Linux and Windows only")
}

/// Child processes, of which none is ever started.
pub mod child {
    use std::io::{Error, Result};
    use std::process::{Command, ExitStatus};

    use super::unsupported;

    /// Does nothing.
    pub fn prepare() {}

    /// Does nothing.
    pub fn end_with_parent() {}

    /// Does nothing.
    pub fn end_child_with_this_process(_command: &mut Command) {}

    /// Does nothing.
    pub fn keep_from_interruption(_command: &mut Command) {}

    /// Returns an error.
    pub fn become_program(_command: &mut Command, _then: Option<&dyn Fn()>) -> Error {
        unsupported()
    }

    /// Returns `None`.
    #[must_use]
    pub fn crash_number(_status: ExitStatus) -> Option<i32> {
        None
    }

    /// Describes how a process failed, to follow its name.
    #[must_use]
    pub fn failure(status: ExitStatus) -> String {
        format!("failed with {status}")
    }

    /// There is none.
    pub enum Child {}

    impl Child {
        /// Returns an error.
        ///
        /// # Errors
        /// Always.
        pub fn start(_command: &mut Command, _has_session: bool) -> Result<Child> {
            Err(unsupported())
        }

        /// There is no child to ask.
        #[must_use]
        pub fn has_ended(&self) -> bool {
            match *self {}
        }

        /// There is no child to end.
        ///
        /// # Errors
        /// None.
        pub fn end(&mut self) -> Result<Option<ExitStatus>> {
            match *self {}
        }

        /// There is no child to ask.
        #[must_use]
        pub fn activity(&self) -> Option<(u64, u64)> {
            match *self {}
        }
    }
}

/// Errors of the system.
pub mod errors {
    use std::io::{Error, ErrorKind};

    /// Returns `false`.
    #[must_use]
    pub fn is_lack_of_resources(_error: &Error) -> bool {
        false
    }

    /// Returns `false`.
    #[must_use]
    pub fn is_lack_of_files(_error: &Error) -> bool {
        false
    }

    /// Returns `None`.
    #[must_use]
    pub fn limit_of_open_files(_error: &Error) -> Option<u64> {
        None
    }

    /// Whether the reader of a pipe has closed it.
    #[must_use]
    pub fn is_closed_pipe(error: &Error) -> bool {
        error.kind() == ErrorKind::BrokenPipe
    }
}

/// Limits of memory, which are not read.
pub mod memory_limits {
    /// The limits in force.
    #[derive(Clone, Debug, Default)]
    pub struct MemoryLimits(());

    impl MemoryLimits {
        /// Reads nothing.
        #[must_use]
        pub fn read() -> MemoryLimits {
            MemoryLimits(())
        }

        /// Returns `None`.
        #[must_use]
        pub fn explains(&self, _number: Option<i32>, _stderr: &str) -> Option<String> {
            None
        }

        /// Returns `None`.
        #[must_use]
        pub fn explains_message(&self, _message: &str) -> Option<String> {
            None
        }
    }
}

/// Pipes between a program and its children.
pub mod pipes {
    use std::io::Result;
    use std::process::Stdio;

    use super::unsupported;

    /// There is none.
    pub enum Pipe {}

    impl Pipe {
        /// There is no pipe to read from.
        ///
        /// # Errors
        /// None.
        pub fn read(&mut self, _into: &mut [u8]) -> Result<usize> {
            match *self {}
        }
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn pipe() -> Result<(Pipe, Stdio)> {
        Err(unsupported())
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn channel(_text: &[u8]) -> Result<(Pipe, Stdio)> {
        Err(unsupported())
    }

    /// Returns `None`.
    pub fn receive(_into: &mut [u8]) -> Option<usize> {
        None
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn report(_bytes: &[u8]) -> Result<()> {
        Err(unsupported())
    }
}

/// Other processes, which are not inspected.
pub mod processes {
    use std::ffi::OsString;
    use std::io::Result;
    use std::path::{Path, PathBuf};

    use super::unsupported;

    /// The largest ID of a process.
    pub const MAX_ID: i64 = u32::MAX as i64;

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn libraries_of(_process: u32) -> Result<Vec<PathBuf>> {
        Err(unsupported())
    }

    /// Returns `None`.
    pub fn users_of(_file: &Path) -> Option<Vec<String>> {
        None
    }

    /// Returns `None`.
    pub fn program_of(_process: u32) -> Option<PathBuf> {
        None
    }

    /// Returns `None`.
    pub fn variable_of(_process: u32, _name: &str) -> Option<OsString> {
        None
    }

    /// Returns an empty list.
    pub fn names_of_parents() -> Vec<String> {
        Vec::new()
    }
}

/// Random numbers.
pub mod random {
    use std::io::Result;

    use super::unsupported;

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn fill(_into: &mut [u8]) -> Result<()> {
        Err(unsupported())
    }
}

//! Represents a command for the user to run, quoted for the shell of this system.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_probe::Os;

use crate::quoting::quoted;
use crate::rights::{belongs_to_user, is_of_root};

/// The PowerShell cmdlet that moves a file or directory. Only PowerShell can run it.
pub const MOVE_ITEM: &str = "Move-Item";

/// The PowerShell cmdlet that removes a file or directory. Only PowerShell can run it.
pub const REMOVE_ITEM: &str = "Remove-Item";

/// A command for the user to run. `Display` quotes the arguments for a POSIX shell, or for PowerShell on Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program: a path, or a name that is looked up on `PATH`.
    pub program: OsString,
    /// The arguments, without the program.
    pub arguments: Vec<OsString>,
    /// The command changes files that only root can change.
    needs_root: bool,
    /// The directory that the command changes.
    changed_dir: Option<PathBuf>,
}

impl Command {
    /// Returns the command that runs a program with these arguments.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Command { program: program.into(), arguments: Vec::new(), needs_root: false, changed_dir: None }.and(arguments)
    }

    /// Adds arguments.
    pub fn and<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the directory that the command changes. It may not exist yet.
    pub fn changing(self, dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Command { needs_root: is_of_root(dir), changed_dir: Some(dir.to_owned()), ..self }
    }

    /// Returns the directory that the command changes, if it was set.
    pub fn changed_dir(&self) -> Option<&Path> {
        self.changed_dir.as_deref()
    }

    /// Sets a file whose owner must run the command.
    pub fn by_owner_of(self, file: &Path) -> Self {
        Command { needs_root: !belongs_to_user(file), ..self }
    }

    /// Wraps the command in another program, such as `sudo`.
    pub fn started_by(self, program: &str, options: impl IntoIterator<Item = OsString>) -> Self {
        let arguments = options.into_iter().chain([self.program]).chain(self.arguments).collect();
        Command { program: program.into(), arguments, ..self }
    }

    /// Returns whether another user would need root privileges to run the command.
    pub fn needs_root(&self) -> bool {
        self.needs_root || ["apt-get", "apt-mark", "ldconfig"].iter().any(|program| self.program == *program)
    }

    /// Returns whether this is one of the arguments.
    pub fn has(&self, argument: &str) -> bool {
        self.arguments.iter().any(|one| one == argument)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = quoted(&self.program);
        // PowerShell evaluates a quoted string as a value instead of running it.
        let call = if Os::HOST == Os::Windows && program.starts_with(['"', '\'']) { "& " } else { "" };
        write!(f, "{call}{program}")?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// Joins commands into one line for a POSIX shell, where each command runs only if the previous one succeeded. Windows
/// PowerShell does not support `&&`, so on Windows all commands run in order.
pub fn command_line(commands: &[Command]) -> String {
    commands.iter().map(Command::to_string).collect::<Vec<_>>().join(match Os::HOST {
        Os::Windows => "; ",
        _ => " && ",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_change_root_owned_directories_need_root() {
        for (program, dir, expected) in [
            ("apt-get", "/nowhere", true),
            ("apt-mark", "/nowhere", true),
            ("pip", "/usr", Os::HOST == Os::Linux),
            // Neither directory exists. The nearest existing parent of the first belongs to root, the other is writable
            // for all.
            ("pip", "/opt/x/y", Os::HOST == Os::Linux),
            ("pip", "/tmp/cudnn-doctor-nowhere/y", false),
        ] {
            assert_eq!(Command::new(program, ["install"]).changing(dir).needs_root(), expected, "{program} {dir}");
        }
        assert!(!Command::new("pip", ["install"]).needs_root());
    }
}

//! A command for the user to run, quoted for the shell.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use cudnn_probe::Os;

use crate::quoting::quoted;
use crate::rights::{belongs_to_user, is_of_root};

/// PowerShell's own command to move a file or directory.
pub const MOVE_ITEM: &str = "Move-Item";

/// PowerShell's own command to remove a file or directory.
pub const REMOVE_ITEM: &str = "Remove-Item";

/// A command for the user to run. `Display` quotes it for the default shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// A path, or a name on `PATH`.
    pub program: OsString,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// Whether only root can change the files that the command changes.
    needs_root: bool,
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

    /// Sets the directory that the command changes, which may be missing.
    pub fn changing(self, dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Command { needs_root: is_of_root(dir), changed_dir: Some(dir.to_owned()), ..self }
    }

    /// Returns the directory that the command changes, if it is set.
    pub fn changed_dir(&self) -> Option<&Path> {
        self.changed_dir.as_deref()
    }

    /// Names a file whose owner must run the command.
    pub fn by_owner_of(self, file: &Path) -> Self {
        Command { needs_root: !belongs_to_user(file), ..self }
    }

    /// Wraps the command in another program, such as `sudo`.
    pub fn started_by(self, program: &str, options: impl IntoIterator<Item = OsString>) -> Self {
        let arguments = options.into_iter().chain([self.program]).chain(self.arguments).collect();
        Command { program: program.into(), arguments, ..self }
    }

    /// Returns whether other users need root's rights to run the command.
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
        // PowerShell prints a quoted string instead of running it.
        let call = if Os::HOST == Os::Windows && program.starts_with(['"', '\'']) { "& " } else { "" };
        write!(f, "{call}{program}")?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// Joins commands into one line, so that each runs only if the previous one succeeded. Windows PowerShell lacks `&&`,
/// so all commands run there.
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
            // Both directories are missing. The first one's nearest existing parent belongs to root, but everybody can
            // write to `/tmp`.
            ("pip", "/opt/x/y", Os::HOST == Os::Linux),
            ("pip", "/tmp/cudnn-doctor-nowhere/y", false),
        ] {
            assert_eq!(Command::new(program, ["install"]).changing(dir).needs_root(), expected, "{program} {dir}");
        }
        assert!(!Command::new("pip", ["install"]).needs_root());
    }
}

//! A command for a person to run, quoted for the shell of this system. Nothing here runs.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use crate::rights::{belongs_to_user, is_of_root};
use cudnn_probe::Os;

use super::quoting::quoted;

/// A command for a person to run. `Display` renders it for a POSIX shell, or for PowerShell on Windows, with each argument
/// quoted where necessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The program: a name to find on `PATH`, or a path.
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// It changes what only root can change.
    needs_root: bool,
}

impl Command {
    pub(crate) fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Command { program: program.into(), arguments: Vec::new(), needs_root: false }.and(arguments)
    }

    pub(crate) fn and<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Names the directory that the command changes, which need not exist yet.
    pub(crate) fn changing(self, dir: impl AsRef<Path>) -> Self {
        Command { needs_root: is_of_root(dir.as_ref()), ..self }
    }

    /// Names the file whose owner has to start the command.
    pub(crate) fn by_owner_of(self, file: &Path) -> Self {
        Command { needs_root: !belongs_to_user(file), ..self }
    }

    /// The same command, started by this program, such as `sudo`.
    pub(crate) fn started_by(self, program: &str, options: impl IntoIterator<Item = OsString>) -> Self {
        let arguments = options.into_iter().chain([self.program]).chain(self.arguments).collect();
        Command { program: program.into(), arguments, needs_root: self.needs_root }
    }

    /// Does it need the rights of root, if another user starts it?
    pub(crate) fn needs_root(&self) -> bool {
        self.needs_root || ["apt-get", "apt-mark", "ldconfig"].iter().any(|program| self.program == *program)
    }

    pub(crate) fn has(&self, argument: &str) -> bool {
        self.arguments.iter().any(|one| one == argument)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = quoted(&self.program);
        // To PowerShell, a string alone is a value.
        let call = if Os::HOST == Os::Windows && program.starts_with(['"', '\'']) { "& " } else { "" };
        write!(f, "{call}{program}")?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// Commands as one line for a POSIX shell: each runs only if the one before it succeeded. Windows PowerShell has no `&&`, so
/// on Windows each runs after the one before it.
#[cfg(test)]
pub(crate) fn command_line(commands: &[Command]) -> String {
    commands.iter().map(Command::to_string).collect::<Vec<_>>().join(match Os::HOST {
        Os::Windows => "; ",
        _ => " && ",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_changes_what_belongs_to_root_needs_its_rights() {
        for (program, dir, expected) in [
            ("apt-get", "/nowhere", true),
            ("apt-mark", "/nowhere", true),
            ("pip", "/usr", Os::HOST == Os::Linux),
            // Neither exists: root made the directory above the first one, and all may write to that above the second one.
            ("pip", "/opt/x/y", Os::HOST == Os::Linux),
            ("pip", "/tmp/cudnn-doctor-nowhere/y", false),
        ] {
            assert_eq!(Command::new(program, ["install"]).changing(dir).needs_root(), expected, "{program} {dir}");
        }
        assert!(!Command::new("pip", ["install"]).needs_root());
    }
}

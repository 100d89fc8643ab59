//! A command for a person to run. Nothing here runs.

use std::ffi::OsString;
use std::fmt;

use super::quoting::quoted;
use crate::platform::Os;

/// A command for a person to run. `Display` renders it for a POSIX shell, or for PowerShell on Windows, with each argument
/// quoted where necessary.
///
/// ```
/// use cudnn_probe::packages::Command;
/// let command = Command::new("pip", ["install", "nvidia-cudnn-cu12>=9.10"]);
/// # if cfg!(unix) {
/// assert_eq!(command.to_string(), "pip install 'nvidia-cudnn-cu12>=9.10'");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Command {
    /// The program: a name to find on `PATH`, or a path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Command {
    /// A command.
    #[must_use]
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, arguments: impl IntoIterator<Item = A>) -> Self {
        Command { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// Does it need the rights of the administrator, as commands for the system's packages do?
    #[must_use]
    pub fn needs_root(&self) -> bool {
        ["apt-get", "apt-mark", "dnf", "zypper"].iter().any(|program| self.program == *program)
    }

    pub(super) fn and<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
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

/// Commands as one line for a POSIX shell: each runs only if the one before it succeeded. Windows PowerShell knows no `&&`,
/// so that on Windows each runs after the one before it.
#[must_use]
pub fn command_line(commands: &[Command]) -> String {
    commands.iter().map(Command::to_string).collect::<Vec<_>>().join(match Os::HOST {
        Os::Linux => " && ",
        Os::Windows => "; ",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_for_the_systems_packages_need_root() {
        for (program, expected) in
            [("apt-get", true), ("dnf", true), ("zypper", true), ("pip", false), ("conda", false), ("uv", false)]
        {
            assert_eq!(Command::new(program, ["install"]).needs_root(), expected, "{program}");
        }
    }
}

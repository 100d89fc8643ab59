//! Formats the command `install` or `uninstall` for a directory.

use std::path::Path;

use crate::packages;
use crate::shell::doctor_command;

/// The command to format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    /// `install`, with the argument of `--from`.
    Install {
        from: Option<&'a Path>,
    },
    Uninstall,
}

impl Command<'_> {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Command::Install { .. } => "install",
            Command::Uninstall => "uninstall",
        }
    }

    /// Returns the command for this directory.
    pub(crate) fn command(self, dir: &Path) -> packages::Command {
        let from = match self {
            Command::Install { from } => from.and_then(|from| std::path::absolute(from).ok()),
            Command::Uninstall => None,
        };
        let from = from.map(|from| ["--from".into(), from.into_os_string()]);
        let name = [self.name().into(), dir.as_os_str().to_owned()];
        doctor_command(name.into_iter().chain(from.into_iter().flatten()))
    }
}

//! Formats the command `install` or `uninstall` for a directory.

use std::path::Path;

use cudnn_cli::programs::doctor_command;
use cudnn_probe::facts;

/// The command to format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropInCommand<'a> {
    /// `install`, with the argument of `--from`.
    Install {
        /// The directory of the drop-in, or `None` for the drop-in of this doctor.
        from: Option<&'a Path>,
    },
    /// `uninstall`.
    Uninstall,
}

impl DropInCommand<'_> {
    /// Returns the name of the command.
    pub fn name(self) -> &'static str {
        match self {
            DropInCommand::Install { .. } => "install",
            DropInCommand::Uninstall => "uninstall",
        }
    }

    /// Returns the command for this directory.
    pub fn command(self, dir: &Path) -> cudnn_cli::command::Command {
        let from = match self {
            DropInCommand::Install { from } => from.and_then(|from| facts::absolute(from).ok()),
            DropInCommand::Uninstall => None,
        };
        let from = from.map(|from| ["--from".into(), from.into_os_string()]);
        let name = [self.name().into(), dir.as_os_str().to_owned()];
        doctor_command(name.into_iter().chain(from.into_iter().flatten()))
    }
}

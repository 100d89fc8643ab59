//! Builds the command that lists the packages of a place.

use std::ffi::OsString;

use cudnn_cli::command::Command;

use super::change::Site;
use super::{apt, conda, uv};

impl Site {
    /// Returns whether uv changes the packages. It lists all packages without the option `--all`.
    fn is_of_uv(&self) -> bool {
        self.python_root().is_some_and(uv::serves)
    }

    /// Returns the command that prints the installed packages in a form that the installer can read again. Returns
    /// `None` for a new environment, for an installer without such a list, and if pip is missing.
    pub fn list(&self) -> Option<Command> {
        // Editable packages are files of the user.
        let options = ["--exclude-editable", "--all"].map(Into::into).into_iter();
        match self {
            Site::NewEnvironment { .. } => None,
            Site::Conda(root) => conda::list(root),
            Site::System => Some(apt::list()),
            Site::Directory { dir, .. } if !self.is_of_uv() => {
                self.read("freeze", options.chain(["--path".into(), dir.into()]).collect())
            }
            _ if self.is_of_uv() => self.read("freeze", options.take(1).collect()),
            _ => self.read("freeze", options.collect()),
        }
    }

    pub(crate) fn check(&self) -> Option<Command> {
        self.read("check", Vec::new())
    }

    /// Returns the command of pip, unless others would have to install pip first.
    fn read(&self, action: &str, arguments: Vec<OsString>) -> Option<Command> {
        let [command] = self.pip(action, arguments)?.try_into().ok()?;
        Some(command)
    }
}

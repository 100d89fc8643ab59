//! Builds the command that lists the packages of a place.

use cudnn_cli::command::Command;

use super::change::Site;
use super::{apt, conda, uv};

impl Site {
    /// Returns whether uv changes the packages. It has no option `--all`, because it lists all packages anyway.
    fn is_of_uv(&self) -> bool {
        self.python_root().is_some_and(uv::serves)
    }

    /// Returns the command that prints the installed packages in a form that the installer can read again. `None` for a
    /// new environment, and for an installer without such a list.
    pub fn list(&self) -> Option<Command> {
        // Editable packages are files of the user.
        let options = ["--exclude-editable", "--all"].map(Into::into).into_iter();
        match self {
            Site::NewEnvironment { .. } => None,
            Site::Conda(root) => conda::list(root),
            Site::System => Some(apt::list()),
            Site::Directory { dir, .. } if !self.is_of_uv() => {
                self.pip("freeze", options.chain(["--path".into(), dir.into()]).collect())?.pop()
            }
            _ if self.is_of_uv() => self.pip("freeze", options.take(1).collect())?.pop(),
            _ => self.pip("freeze", options.collect())?.pop(),
        }
    }
}

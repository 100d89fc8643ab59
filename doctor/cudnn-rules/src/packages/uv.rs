//! Builds the uv commands that change uv's own environments.

use std::ffi::OsString;
use std::path::Path;

use cudnn_cli::command::Command;
use cudnn_cli::path::is_on_path;
use cudnn_probe::python::setting;

use super::environment::{has_pip, python_in};

/// Returns whether uv should change the packages: uv created the environment without pip.
pub(crate) fn serves(root: &Path) -> bool {
    setting(root, "uv").is_some() && !has_pip(root) && is_on_path("uv")
}

/// Returns the uv command for a pip action, without the prompts of pip. By default, uv links files to a cache, where a
/// file damaged in place is damaged too.
pub(super) fn pip(root: &Path, action: &str, arguments: Vec<OsString>) -> Vec<Command> {
    let options = if action == "install" { &["--link-mode", "copy", "--no-cache"][..] } else { &[] };
    let arguments = arguments.into_iter().filter(|argument| argument != "--yes");
    vec![
        Command::new("uv", ["pip", action, "--python"])
            .and([python_in(root)])
            .and(options)
            .and(arguments)
            .changing(root),
    ]
}

//! Builds the uv commands that change uv's own environments.

use cudnn_probe::facts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::site_packages;

use super::command::Command;
use super::dirs::{entries, is_on_path};
use super::environment::{has_pip, python_in, setting};
use super::requirement::package_name;

/// Returns whether uv should change the packages: uv created the environment, and pip is not installed.
pub(crate) fn serves(root: &Path) -> bool {
    setting(root, "uv").is_some() && !has_pip(root) && is_on_path("uv")
}

/// Returns the uv commands for a pip action. uv does not prompt. Files are copied instead of linked, because damage to
/// a linked file also damages the cache.
pub(super) fn pip(root: &Path, action: &str, arguments: Vec<OsString>) -> Vec<Command> {
    let is_install = action == "install";
    let has_links = is_install && has_links_to_cache(root);
    let again = arguments.iter().any(|argument| argument == "--force-reinstall");
    let options = if is_install { &["--link-mode", "copy", "--no-cache"][..] } else { &[] };
    let options = if has_links { options } else { options.get(..2).unwrap_or_default() };
    let arguments = arguments.into_iter().filter(|argument| argument != "--yes");
    let command = Command::new("uv", ["pip", action, "--python"]).and([python_in(root)]).and(options).and(arguments);
    let clean = (again && !has_links).then(|| clean_cache(&command));
    clean.into_iter().chain([command.changing(root)]).collect()
}

/// Removes the packages to reinstall from the cache. By default, uv installs files as hard links to the cache. A file
/// damaged in place is therefore damaged in the cache too, and would be reinstalled in every environment.
fn clean_cache(command: &Command) -> Command {
    // Skips `pip install --python PYTHON --link-mode copy`.
    let requirements = command.arguments.iter().skip(6).filter_map(|argument| argument.to_str());
    let names = requirements.filter(|requirement| !requirement.starts_with('-')).map(package_name);
    Command::new("uv", ["cache", "clean"]).and(names)
}

/// Returns whether uv installs symbolic links to the cache. Cleaning the cache would then break every environment. A
/// settings file can enable links too, so the files that uv installed in this environment are checked.
fn has_links_to_cache(root: &Path) -> bool {
    let is_record_or_nvidia = |dir: &PathBuf| {
        let name = dir.file_name().unwrap_or_default();
        name == "nvidia" || name.as_encoded_bytes().ends_with(b".dist-info")
    };
    facts::variable("UV_LINK_MODE").is_some_and(|mode| mode == "symlink")
        || site_packages(root).flat_map(|dir| entries(&dir)).filter(is_record_or_nvidia).any(|dir| has_links(&dir))
}

/// Returns whether this directory tree contains a symbolic link to an absolute path, like uv's links to the cache.
fn has_links(dir: &Path) -> bool {
    entries(dir).any(|path| match facts::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_dir() => has_links(&path),
        Ok(metadata) => {
            metadata.file_type().is_symlink() && facts::read_link(path).is_ok_and(|target| target.is_absolute())
        }
        Err(_) => false,
    })
}

//! Runs pip.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::FetchError;
use crate::release::Release;

/// pip as a command, run by `python3` or the interpreter in the environment variable `PYTHON`.
///
/// `work_dir` must be a directory that only the caller writes to: Python imports modules from the working directory, so
/// a `pip.py` in the user's current directory would run instead of pip.
#[must_use]
pub fn pip(work_dir: &Path) -> Command {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| OsString::from("python3"));
    // A path is relative to the user's directory, not to the child's. A name without a directory is looked up in PATH.
    let path = PathBuf::from(&python);
    let is_bare = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
    let program = if is_bare { python } else { std::path::absolute(&path).unwrap_or(path).into_os_string() };
    let mut command = Command::new(program);
    // From Python 3.11 on, no working directory on the module path at all.
    command.args(["-m", "pip"]).current_dir(work_dir).env("PYTHONSAFEPATH", "1").stdin(Stdio::null());
    command
}

/// Downloads, checks and unpacks a wheel into `target`, a directory that does not exist. pip writes its progress to
/// stderr.
pub(crate) fn install(release: &'static Release, work_dir: &Path, target: &Path) -> Result<(), FetchError> {
    let failed = |message: String| FetchError::Pip { release, message };
    // pip checks hashes only of requirements from a file.
    let requirement = work_dir.join("requirement.txt");
    std::fs::write(&requirement, release.requirement())
        .map_err(|error| FetchError::Cache { path: requirement.clone(), error })?;
    let mut command = pip(work_dir);
    command
        .args(["install", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir"])
        .args(["--disable-pip-version-check", "--no-input", "--require-hashes", "--target"])
        .arg(target)
        .arg("--requirement")
        .arg(&requirement)
        .args(release.platform.map(|platform| ["--platform", platform]).into_iter().flatten())
        // Undo settings that would send the files elsewhere. The user's choice of an index (PIP_INDEX_URL) stays.
        .envs([("PIP_USER", "0"), ("PIP_DRY_RUN", "0"), ("PIP_NO_INSTALL", "0"), ("PIP_REQUIRE_VIRTUALENV", "0")])
        .env_remove("PIP_TARGET")
        .env_remove("PIP_PREFIX")
        .env_remove("PIP_ROOT")
        .stdout(std::io::stderr());
    let status = command
        .status()
        .map_err(|error| failed(format!("cannot start {}: {error}", command.get_program().display())))?;
    if status.success() { Ok(()) } else { Err(failed(format!("pip ended with {status}"))) }
}

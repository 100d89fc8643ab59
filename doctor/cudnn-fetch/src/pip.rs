//! Runs pip.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cudnn_os::child::end_child_with_this_process;

use crate::error::FetchError;
use crate::python::Python;
use crate::release::Release;

/// The maximum time without progress. pip tries a server five times, for 15 seconds each.
const MAX_IDLE: Duration = Duration::from_secs(5 * 60);

/// The maximum number of files to examine for pip's progress.
const MAX_FILES: usize = 10_000;

/// Returns a command that runs pip with the Python in the environment variable `PYTHON`, or else `python3`. On Windows,
/// the fallbacks are `python.exe` on `PATH` and Python's launcher (`py -3`).
///
/// Only the caller may have write access to `work_dir`, because Python imports modules from the working directory. A
/// `pip.py` there would run instead of pip.
pub fn pip(work_dir: &Path) -> Command {
    let mut command = python(work_dir);
    command.args(["-m", "pip"]);
    command
}

/// Returns the Python that runs [`pip`], without arguments for Python.
pub fn python(work_dir: &Path) -> Command {
    let python = Python::find();
    let mut command = Command::new(python.program);
    // Python 3.11 and newer then ignore modules in the working directory.
    command.args(python.arguments).current_dir(work_dir).env("PYTHONSAFEPATH", "1").stdin(Stdio::null());
    command
}

/// Downloads, checks and unpacks a wheel into `target`, which must not exist. pip prints progress to stderr.
pub(crate) fn install(release: &'static Release, work_dir: &Path, target: &Path) -> Result<(), FetchError> {
    let failed = |message: String| FetchError::Pip(release, message);
    // pip checks hashes only in requirements files.
    let requirement = work_dir.join("requirement.txt");
    std::fs::write(&requirement, release.requirement())
        .map_err(|error| FetchError::Cache(requirement.clone(), error))?;
    let mut command = pip(work_dir);
    command
        .args(["install", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir"])
        .args(["--disable-pip-version-check", "--no-input"])
        .args(release.is_pinned().then_some("--require-hashes"))
        .arg("--target")
        .arg(target)
        .arg("--requirement")
        .arg(&requirement)
        .args(release.platform.map(|platform| ["--platform", platform]).into_iter().flatten())
        // These settings would redirect the files. The user's index (PIP_INDEX_URL) stays.
        .envs([("PIP_USER", "0"), ("PIP_DRY_RUN", "0"), ("PIP_NO_INSTALL", "0"), ("PIP_REQUIRE_VIRTUALENV", "0")])
        .env_remove("PIP_TARGET")
        .env_remove("PIP_PREFIX")
        .env_remove("PIP_ROOT")
        // pip downloads and unpacks here, where progress is visible and no files are left if pip is killed.
        .envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, work_dir)))
        .stdout(std::io::stderr());
    end_child_with_this_process(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| failed(format!("cannot start {}: {error}", command.get_program().display())))?;
    match wait(&mut child, work_dir, MAX_IDLE) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(failed(failure_message(&command, status))),
        Ok(None) => Err(failed(format!("pip made no progress for {} seconds and was stopped", MAX_IDLE.as_secs()))),
        Err(error) => Err(failed(format!("cannot wait for pip: {error}"))),
    }
}

/// Returns the message for a failed pip. `python.exe` in `WindowsApps` exits with this code if the Microsoft Store's
/// Python is not installed.
fn failure_message(command: &Command, status: ExitStatus) -> String {
    const NO_PYTHON: i32 = 9009;
    if status.code() == Some(NO_PYTHON) {
        return format!("{:?} is not Python; it only opens the Microsoft Store", command.get_program());
    }
    format!("pip exited with {status}")
}

/// Waits for pip. Kills pip and returns `None` if the files below the directory do not change for this time.
fn wait(child: &mut Child, work_dir: &Path, max_idle: Duration) -> std::io::Result<Option<ExitStatus>> {
    let (mut size, mut progress) = (0, Instant::now());
    loop {
        // pip may fail immediately.
        for _ in 0..20 {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let now = total_len(work_dir);
        if now != size {
            (size, progress) = (now, Instant::now());
        }
        if progress.elapsed() > max_idle {
            child.kill()?;
            // A process that waits for a file server may not exit.
            for _ in 0..100 {
                if child.try_wait()?.is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            return Ok(None);
        }
    }
}

fn total_len(dir: &Path) -> u64 {
    let (mut total, mut count) = (0, 0);
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            count += 1;
            match entry.metadata() {
                _ if count > MAX_FILES => return total,
                Ok(metadata) if metadata.is_dir() => dirs.push(entry.path()),
                Ok(metadata) => total += metadata.len(),
                Err(_) => {}
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pip_without_progress_is_stopped_and_a_slow_one_is_not() {
        if cudnn_os::IS_WINDOWS {
            return;
        }
        let dir = std::env::temp_dir().join(format!("cudnn-fetch-pip-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        let wait = |script: &str, max_idle: u64| {
            let mut child = Command::new("/bin/sh").args(["-c", script]).current_dir(&dir).spawn().unwrap();
            wait(&mut child, &dir, Duration::from_millis(max_idle)).unwrap()
        };
        assert!(wait("exec sleep 60", 100).is_none());
        let slow = "for i in 1 2 3 4 5 6 7 8; do echo $i >> below/wheel; sleep 0.3; done";
        assert!(wait(slow, 1200).is_some_and(|status| status.success()));
        assert!(wait("exit 3", 1000).is_some_and(|status| status.code() == Some(3)));
        let _ = std::fs::remove_dir_all(dir);
    }
}

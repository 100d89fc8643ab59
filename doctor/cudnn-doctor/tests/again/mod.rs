//! Repeats reports of `check` from saved facts.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use support::{TempDir, is_full};

const DOCTOR: &str = env!("CARGO_BIN_EXE_cudnn-doctor");

/// Runs `check`, and repeats the report from saved facts in a process without the environment and the working
/// directory. Both reports must be equal. An ordinary run repeats the reports of about every third test.
pub(crate) fn check(run: impl FnOnce(&[&OsStr]) -> Output) -> Output {
    // Threads have the names of their tests.
    let thread = std::thread::current();
    let number: usize = thread.name().unwrap_or_default().bytes().map(usize::from).sum();
    if !is_full() && !number.is_multiple_of(3) {
        return run(&[]);
    }
    let dir = TempDir::new();
    let file = dir.path().join("facts.json");
    let output = run(&["--save-facts".as_ref(), file.as_os_str(), "--with-names".as_ref()]);
    let is_json = output.stdout.starts_with(b"{");
    if file.exists() {
        let again = from_facts(&file, if is_json { &["--json"] } else { &["--verbose"] });
        let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
        if is_json {
            assert_eq!(text(&again), text(&output), "{again:?}");
        }
        assert_eq!(again.status.code(), output.status.code(), "{again:?}");
    }
    output
}

pub(crate) fn from_facts(file: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(DOCTOR);
    command.args(["check", "--facts"]).arg(file).args(options).env_clear().current_dir("/");
    command.output().unwrap()
}

//! Creates programs and scripts that a test executes. Only child processes open these files for writing, because tests
//! run in parallel threads. If another test starts a process, the fork inherits all open descriptors until the exec.
//! Executing a file that is open for writing anywhere fails with ETXTBSY ("Text file busy").

use std::path::Path;
use std::process::Command;

/// Writes a program that every user may execute, such as a script. Creates the directories above it, and replaces an
/// existing file or link.
///
/// # Panics
/// Panics if the file cannot be written.
pub fn write_program(file: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), contents).unwrap();
    copy_program(source.path(), file);
}

/// Copies a program to a file that all users may execute. Creates the directories above the copy, and replaces an existing
/// file or link.
///
/// # Panics
/// Panics if the program cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut install = Command::new("install");
    let output = install.args(["-D", "-m", "755", "--"]).arg(from.as_ref()).arg(to.as_ref()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

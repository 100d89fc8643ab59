//! Creates programs and scripts that a test executes. Only child processes open these files for writing, because tests
//! run in parallel threads. If another test starts a process, it inherits all open descriptors until the exec, and
//! executing a file that is open for writing fails with ETXTBSY ("Text file busy").

use std::path::Path;
use std::process::Command;

/// Writes an executable file for all users. Creates missing directories, and replaces an existing file or link.
pub fn write_program(file: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), contents).unwrap();
    copy_program(source.path(), file);
}

/// Copies a program for all users. Creates missing directories, and replaces an existing file or link.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut install = Command::new("install");
    let output = install.args(["-D", "-m", "755", "--"]).arg(from.as_ref()).arg(to.as_ref()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

//! Reads captures for commands, and protects them from being overwritten.
//!
//! | module | purpose |
//! | --- | --- |
//! | `data` | the files with the values of tensors |
//! | `pack` | a capture and these files in one archive |

mod data;
pub(crate) mod pack;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use cudnn_capture_file::{Capture, values_dir};
use cudnn_os::files::canonicalize;
use cudnn_probe::FileIdentity;

use crate::escape::Printable;
use crate::output::{Outcome, remark};
use crate::shell::doctor_command;
use crate::temporary::Temporary;

/// A capture that was read from a file or from a packed file.
pub(crate) struct CaptureFile {
    pub(crate) capture: Capture,
    /// The unreadable parts, in sentences.
    pub(crate) problems: Vec<String>,
    path: PathBuf,
    /// Contains the unpacked copies. Removed with this value.
    _unpacked: Option<Temporary>,
}

/// Reads a capture or a packed capture, and warns about unreadable parts.
pub(crate) fn read(file: &Path) -> Result<CaptureFile, String> {
    let name = file.printable();
    let failed = |error: &dyn Display| format!("{name}: {error}");
    // Reading a pipe could wait forever.
    if !file.metadata().map_err(|error| failed(&error))?.is_file() {
        return Err(failed(&"not a regular file; copy the capture to a file first"));
    }
    let (unpacked, path, mut problems) = match pack::unpack(file).map_err(|error| failed(&error))? {
        Some((dir, path, problems)) => (Some(dir), path, problems),
        None => (None, file.to_owned(), Vec::new()),
    };
    let capture = Capture::read(&path).map_err(|error| failed(&error))?;
    problems.extend(capture.problems.iter().map(ToString::to_string));
    problems.extend(data::problems(&capture, &values_dir(&path)));
    for problem in &problems {
        remark(format_args!("warning: {name}: {}", problem.printable()));
    }
    Ok(CaptureFile { capture, problems, path, _unpacked: unpacked })
}

/// Returns a number of GiB in bytes.
pub(crate) fn gibibytes(count: u16) -> usize {
    usize::from(count) << 30
}

impl CaptureFile {
    /// Returns the path of the capture. If it was packed, this is an unpacked copy.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the outcome of reading: a warning if a part is unreadable.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.problems.is_empty() { Outcome::Fine } else { Outcome::Warnings }
    }
}

/// Formats the error that a capture contains no such graph, with the command that lists the graphs.
pub(crate) fn no_graph(file: &Path, error: impl Display) -> String {
    let show = doctor_command(["capture".as_ref(), "show".as_ref(), file.as_os_str()]);
    format!("{}: {error}; `{show}` lists the graphs", file.printable())
}

/// Refuses an output file that is part of the capture, or that cannot be written, before a command works for minutes.
pub(crate) fn check_output(output: &Path, capture: &Path) -> Result<(), String> {
    let name = output.printable();
    let identity = FileIdentity::of(output);
    if identity.is_some() && identity == FileIdentity::of(capture) {
        return Err(format!("{name} is the capture; write to another file"));
    }
    let target = resolved(output);
    let dir = dir_of(&target);
    if !dir.is_dir() {
        return Err(format!("{name}: there is no directory {}", dir.printable()));
    }
    if canonicalize(values_dir(capture)).is_ok_and(|values| canonicalize(dir).is_ok_and(|dir| dir.starts_with(values)))
    {
        return Err(format!("{name} is in the directory with the values of the capture; write to another directory"));
    }
    let is_writable = match target.metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(format!("{name} is a directory")),
        Ok(metadata) if !metadata.is_file() => return Ok(()),
        Ok(_) => File::options().append(true).open(&target).map(drop),
        Err(_) => Ok(()),
    };
    is_writable
        .and_then(|()| Temporary::file_in(dir).map(drop))
        .map_err(|error| format!("cannot write {name}: {error}"))
}

/// Writes a file completely, and then replaces an older one at once. If that fails, or if the doctor is interrupted, the
/// older file remains. Devices and pipes are written directly.
pub(crate) fn write_output<T>(output: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T, String> {
    let write = || {
        let target = resolved(output);
        if target.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let mut file = tempfile::tempfile()?;
            let written = write(&mut file)?;
            file.rewind()?;
            io::copy(&mut file, &mut File::create(&target)?)?;
            return Ok(written);
        }
        let (temporary, mut file) = Temporary::file_in(dir_of(&target))?;
        let written = write(&mut file)?;
        temporary.rename(&target)?;
        Ok(written)
    };
    write().map_err(|error: io::Error| format!("cannot write {}: {error}", output.printable()))
}

/// Returns the file that a link leads to.
fn resolved(output: &Path) -> PathBuf {
    canonicalize(output).unwrap_or_else(|_| output.to_owned())
}

fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

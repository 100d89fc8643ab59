//! Writes the output of a command completely or not at all, and never over its capture.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use cudnn_capture_file::values_dir;
use cudnn_os::files::canonicalize;
use cudnn_probe::FileIdentity;

use crate::escape::Printable;
use crate::temporary::Temporary;

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

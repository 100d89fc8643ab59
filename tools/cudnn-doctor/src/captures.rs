//! Reads captures for commands, and protects them from being overwritten.

use std::path::Path;

use cudnn_capture_file::Capture;
use cudnn_probe::FileIdentity;

use crate::escape::Printable;
use crate::output::remark;

/// Reads a capture, and warns about parts that cannot be read.
pub(crate) fn read(file: &Path) -> Result<Capture, String> {
    let name = file.printable();
    let capture = Capture::read(file).map_err(|error| format!("{name}: {error}"))?;
    for problem in &capture.problems {
        remark(format_args!("warning: {name}: {problem}"));
    }
    Ok(capture)
}

/// Refuses an output file that is the capture, or that cannot be created, before a command works for minutes.
pub(crate) fn check_output(output: &Path, capture: &Path) -> Result<(), String> {
    let name = output.printable();
    let identity = FileIdentity::of(output);
    if identity.is_some() && identity == FileIdentity::of(capture) {
        return Err(format!("{name} is the capture; write to another file"));
    }
    let dir = output.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if dir.is_dir() { Ok(()) } else { Err(format!("{name}: there is no directory {}", dir.printable())) }
}

//! Provides advice that differs between operating systems. System calls are in the crate cudnn-os.

use std::path::PathBuf;

use cudnn_os::errors::is_lack_of_files;
use cudnn_os::libraries;
use cudnn_probe::ProbeError;

pub use crate::packages::python_in;

/// Returns whether the file could not be read because too many files are open, which is not a problem of the file.
pub(crate) fn is_too_many_open_files(error: &ProbeError) -> bool {
    matches!(error, ProbeError::Unreadable { error } if is_lack_of_files(error))
}

/// Returns the name or path for opening a driver library. On Windows it is a path in the system directory, because
/// files with this name elsewhere are unrelated.
pub fn system_library(name: &str) -> PathBuf {
    libraries::system_dir().map_or_else(|| name.into(), |dir| dir.join(name))
}

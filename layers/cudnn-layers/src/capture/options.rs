//! The options of the layer, from the environment or from the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cudnn_os::environment::is_secure_execution;

/// The environment variable with the name of the capture. The first `%i` in the name is replaced by the process ID.
pub const VARIABLE: &str = "CUDNN_CAPTURE";

/// The environment variable with the graphs whose tensors are stored: ids, separated by commas, or `all`.
pub const DATA_VARIABLE: &str = "CUDNN_CAPTURE_DATA";

static CHOSEN: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the file in code, instead of from [`VARIABLE`]. Call this before you add the layer, because later changes have
/// no effect.
pub fn configure(file: PathBuf) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
}

/// Returns the file that the program or the environment selects.
pub(super) fn file() -> Result<PathBuf, String> {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    chosen.or_else(|| variable(VARIABLE).map(PathBuf::from)).ok_or(format!("{VARIABLE} does not name a file"))
}

/// Returns the graphs whose tensors are stored.
pub(super) fn data() -> Vec<String> {
    let value = variable(DATA_VARIABLE).unwrap_or_default();
    value.to_string_lossy().split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// The loader ignores the environment in secure-execution mode, but the program may have added the layer itself.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty() && !is_secure_execution())
}

//! The options of the layer, from the environment or from the program.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cudnn_os::environment::is_secure_execution;

/// The environment variable with the name of the capture. The first `%i` in the name is replaced by the process ID.
pub const VARIABLE: &str = "CUDNN_CAPTURE";

static CHOSEN: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the file in code, instead of from [`VARIABLE`]. Call this before you add the layer, because later changes have no
/// effect.
pub fn configure(file: PathBuf) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
}

/// Returns the file that the program or the environment selects.
pub(super) fn chosen() -> Result<PathBuf, String> {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The loader ignores the environment in this mode, but the program may have added the layer itself.
    let variable = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && !is_secure_execution());
    chosen.or_else(|| variable().map(PathBuf::from)).ok_or(format!("{VARIABLE} does not name a file"))
}

//! Implements `cargo xtask frameworks`, which runs the script that updates the facts about framework releases.

use crate::error::Result;
use crate::workspace::root;

/// Runs the script with this option, and with the Python that fetches releases.
pub(crate) fn run(option: Option<&str>) -> Result<()> {
    let root = root()?;
    let mut python = cudnn_fetch::python(&root);
    python.arg(root.join("doctor/cudnn-frameworks/data/update.py")).args(option);
    let status = python.status().map_err(|error| format!("cannot start {:?}: {error}", python.get_program()))?;
    if status.success() { Ok(()) } else { Err(format!("update.py ended with {status}").into()) }
}

//! Finds the root of the workspace.

use std::path::PathBuf;

use crate::error::Result;

/// Returns the root of the workspace in which `cargo xtask` was run. cargo passes the path of this package at run time.
/// The compiled-in path would belong to the checkout that built the program.
pub(crate) fn root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.as_deref().and_then(|package| package.parent());
    let root = root.ok_or("CARGO_MANIFEST_DIR is not set; run this program through `cargo xtask`")?;
    Ok(root.canonicalize()?)
}

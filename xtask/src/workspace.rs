//! The path of the workspace.

use std::path::PathBuf;

use crate::error::Result;

/// The root of the workspace that `cargo xtask` was run in: the parent of this package, which cargo names at run time.
/// The compiled-in path would be that of the checkout which built the program.
pub(crate) fn root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.as_deref().and_then(|package| package.parent());
    let root = root.ok_or("CARGO_MANIFEST_DIR is not set; run this program through `cargo xtask`")?;
    Ok(root.canonicalize()?)
}

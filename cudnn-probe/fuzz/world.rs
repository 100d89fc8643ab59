//! A folder in memory for the fuzz targets: the probe reads files, and nothing else.

use std::path::{Path, PathBuf};

/// The process's own folder.
pub fn root() -> PathBuf {
    let root = PathBuf::from(format!("/dev/shm/cudnn-probe-fuzz-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&root);
    root
}

/// Writes a file below it.
pub fn put(below: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    let file = root().join(below);
    if let Some(folder) = file.parent() {
        let _ = std::fs::create_dir_all(folder);
    }
    let _ = std::fs::write(&file, bytes);
    file
}

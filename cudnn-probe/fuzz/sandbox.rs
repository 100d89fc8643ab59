//! Provides an in-memory directory for fuzz targets. The probe reads only files, so the directory is the complete
//! input.

use std::path::{Path, PathBuf};

/// Returns the directory of this process.
pub fn root() -> PathBuf {
    let root = PathBuf::from(format!("/dev/shm/cudnn-probe-fuzz-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&root);
    root
}

/// Writes a file into the directory.
pub fn put(below: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    let file = root().join(below);
    if let Some(dir) = file.parent() {
        let _ = std::fs::create_dir_all(dir);
    }
    let _ = std::fs::write(&file, bytes);
    file
}

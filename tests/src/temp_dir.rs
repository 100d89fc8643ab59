//! Provides a temporary directory for one test, with the libraries of an installation in it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cudnn_probe::Library;

/// A temporary directory that is removed on drop, with all contents.
#[derive(Debug)]
pub struct TempDir(tempfile::TempDir);

impl TempDir {
    /// Creates an empty directory that every user can enter.
    ///
    /// # Panics
    /// Panics if the directory cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let permissions = std::fs::Permissions::from_mode(0o755);
        TempDir(tempfile::Builder::new().prefix("cudnn-tests-").permissions(permissions).tempdir().unwrap())
    }

    /// Creates a directory with symlinks to the libraries of an installation.
    ///
    /// # Panics
    /// Panics if the directory cannot be created.
    #[must_use]
    pub fn links_to(lib_dir: &Path) -> Self {
        TempDir::filled(lib_dir, |file, link| std::os::unix::fs::symlink(file, link))
    }

    /// Creates a directory with copies of the libraries of an installation, for unprivileged children, which may not
    /// enter the user's home directory. Uses hard links where the file system supports them, to save disk space.
    ///
    /// # Panics
    /// Panics if the directory cannot be created.
    #[must_use]
    pub fn copy_of(lib_dir: &Path) -> Self {
        TempDir::filled(lib_dir, |file, copy| {
            let file = std::fs::canonicalize(file)?;
            std::fs::hard_link(&file, copy).or_else(|_| std::fs::copy(&file, copy).map(|_| ()))
        })
    }

    fn filled(lib_dir: &Path, put: impl Fn(&Path, &Path) -> std::io::Result<()>) -> Self {
        let dir = TempDir::new();
        for library in Library::ALL.iter().copied() {
            let file = lib_dir.join(library.file_name());
            if file.exists() {
                put(&file, &dir.file(library)).unwrap();
            }
        }
        dir
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the name without the parent's path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the path of a library in the directory.
    #[must_use]
    pub fn file(&self, library: Library) -> PathBuf {
        self.path().join(library.file_name())
    }

    /// Removes a library if it exists, and returns the path.
    #[must_use]
    pub fn cleared(&self, library: Library) -> PathBuf {
        let file = self.file(library);
        let _ = std::fs::remove_file(&file);
        file
    }
}

impl Default for TempDir {
    fn default() -> Self {
        TempDir::new()
    }
}

//! A folder of one test's own, removed with all that is in it when the test ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use cudnn_probe::Library;

/// A temporary folder.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A new, empty one that every user can enter.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cudnn-tests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    /// A new one with a link to each library of an installation.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn links_to(lib_dir: &Path) -> Self {
        TempDir::filled(lib_dir, |file, link| std::os::unix::fs::symlink(file, link))
    }

    /// A new one with each library of an installation, for children that may not enter the user's own folders, as
    /// those without privileges. No room is taken where the file system can do without.
    ///
    /// # Panics
    /// When it cannot be made.
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

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Its name, without the folders above it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The path of a library in it.
    #[must_use]
    pub fn file(&self, library: Library) -> PathBuf {
        self.0.join(library.file_name())
    }

    /// Removes a library, if it is there, and gives its path.
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

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

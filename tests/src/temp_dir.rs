//! Provides a temporary directory for one test, with the libraries of an installation in it.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use cudnn_probe::Library;

/// A temporary directory that is removed with all contents on drop, or otherwise at exit.
#[derive(Debug)]
pub struct TempDir(tempfile::TempDir);

/// Returns the existing directories with the processes that created them, because a forked child must not remove any.
/// Statics are never dropped, so the first call registers an exit handler that removes theirs.
fn existing() -> MutexGuard<'static, BTreeSet<(u32, PathBuf)>> {
    static EXISTING: Mutex<BTreeSet<(u32, PathBuf)>> = Mutex::new(BTreeSet::new());
    static AT_EXIT: Once = Once::new();
    extern "C" fn remove() {
        let own = |(process, _): &(u32, PathBuf)| *process == std::process::id();
        // In a forked child, a thread of the parent may hold the lock forever.
        let Ok(mut existing) = EXISTING.try_lock() else { return };
        for (_, dir) in std::mem::take(&mut *existing).into_iter().filter(own) {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
    // SAFETY: the function may run at any time, and it does not unwind.
    AT_EXIT.call_once(|| assert_eq!(unsafe { libc::atexit(remove) }, 0));
    EXISTING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for TempDir {
    fn drop(&mut self) {
        existing().remove(&(std::process::id(), self.path().to_owned()));
    }
}

impl TempDir {
    /// Creates an empty directory that every user can enter.
    pub fn new() -> Self {
        let permissions = std::fs::Permissions::from_mode(0o755);
        let dir = tempfile::Builder::new().prefix("cudnn-tests-").permissions(permissions).tempdir().unwrap();
        existing().insert((std::process::id(), dir.path().to_owned()));
        TempDir(dir)
    }

    /// Creates a directory with symlinks to the libraries of an installation.
    pub fn links_to(lib_dir: &Path) -> Self {
        TempDir::filled(lib_dir, |file, link| std::os::unix::fs::symlink(file, link))
    }

    /// Creates a directory with copies of the libraries of an installation, for unprivileged children, which may not
    /// enter the user's home directory: see [`link_or_copy`].
    pub fn copy_of(lib_dir: &Path) -> Self {
        TempDir::filled(lib_dir, link_or_copy)
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
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the name without the parent's path.
    pub fn name(&self) -> &str {
        self.path().file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns the path of a library in the directory.
    pub fn file(&self, library: Library) -> PathBuf {
        self.path().join(library.file_name())
    }

    /// Removes a library if it exists, and returns the path.
    pub fn cleared(&self, library: Library) -> PathBuf {
        let file = self.file(library);
        let _ = std::fs::remove_file(&file);
        file
    }
}

/// Puts a file into another directory, as a hard link that saves disk space, or as a copy on another file system. A
/// test must replace the file to change it, because a link leads to the original.
///
/// # Errors
/// The file cannot be read, or a file of this name exists.
pub fn link_or_copy(file: &Path, to: &Path) -> std::io::Result<()> {
    let file = std::fs::canonicalize(file)?;
    std::fs::hard_link(&file, to).or_else(|_| std::fs::copy(&file, to).map(drop))
}

impl Default for TempDir {
    fn default() -> Self {
        TempDir::new()
    }
}

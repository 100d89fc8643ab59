//! Functions that Windows and all unsupported systems share, because these systems lack the feature or std is
//! sufficient.

#[cfg(feature = "native")]
pub(crate) mod trusted_files;

pub(crate) mod files {
    use std::borrow::Cow;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::path::{Path, PathBuf};

    /// The canonical path, because std has no stable function that returns file numbers.
    pub type FileId = PathBuf;

    pub fn imagined_id(path: &Path) -> FileId {
        path.to_owned()
    }

    pub fn inode(_path: &Path) -> Option<u64> {
        None
    }

    /// Converts the text to UTF-8, with replacement characters for invalid Unicode.
    pub fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
        Cow::Owned(text.to_string_lossy().into_owned().into_bytes())
    }

    pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
        PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns `false`. Windows has no setuid bit, and asks the user instead.
    pub fn is_setid(_program: &Path) -> bool {
        false
    }

    /// Returns `false`, because std cannot read access control lists.
    pub fn is_like_tmp(_dir: &Path) -> bool {
        false
    }

    /// Returns the path unchanged, because std cannot read access control lists.
    pub fn resolve_beside(path: &Path, _program_dir: &Path) -> Option<PathBuf> {
        Some(path.to_owned())
    }

    pub fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn make_as_private_as(file: &File, other: &std::fs::Metadata) -> io::Result<()> {
        file.set_permissions(other.permissions())
    }

    /// Returns an error, because Windows allows only some users to create symbolic links.
    pub fn symlink(_target: &Path, _link: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn open_without_blocking(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(crate) fn open_without_following(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    #[cfg(feature = "processes")]
    pub fn skip_hole(_file: &File) -> io::Result<()> {
        Ok(())
    }

    #[cfg(feature = "processes")]
    pub fn lock_dir(_dir: &Path) -> io::Result<Option<File>> {
        Ok(None)
    }

    #[cfg(feature = "processes")]
    pub fn sync_dir(_dir: &Path) {}
}

pub(crate) mod environment {
    use std::ffi::OsString;

    /// Returns `None`. The initial environment is unavailable, and Windows uses the current `PATH` anyway.
    pub fn initial_value(_name: &str) -> Option<Option<OsString>> {
        None
    }

    /// Returns `false`. Windows does not run programs with elevated rights in the environment of another user.
    #[cfg(feature = "native")]
    #[must_use]
    pub fn is_secure_execution() -> bool {
        false
    }

    #[cfg(feature = "native")]
    pub fn block() -> Option<Vec<u8>> {
        let entry = |(name, value): (OsString, OsString)| {
            [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat()
        };
        Some(std::env::vars_os().flat_map(entry).collect())
    }
}

#[cfg(feature = "native")]
pub mod cancel {
    #[derive(Debug)]
    pub struct ThreadStateGuard(());

    impl ThreadStateGuard {
        #[must_use]
        #[allow(clippy::new_without_default, reason = "a guard must be created explicitly")]
        pub fn new() -> Self {
            ThreadStateGuard(())
        }
    }

    impl Drop for ThreadStateGuard {
        fn drop(&mut self) {}
    }
}

#[cfg(feature = "native")]
pub(crate) mod exit {
    /// Windows ends the other threads before it calls exit handlers.
    pub const THREADS_RUN_ON: bool = false;

    /// Returns `false`, because the end of the first thread goes unnoticed.
    pub fn is_first_thread() -> bool {
        false
    }
}

#[cfg(feature = "native")]
pub mod fork {
    use std::sync::atomic::AtomicU32;

    pub fn call_at_forks(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}

    #[inline]
    pub fn word() -> &'static AtomicU32 {
        static WORD: AtomicU32 = AtomicU32::new(0);
        &WORD
    }

    pub fn prepare_word() {}
}

#[cfg(feature = "native")]
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Defines the static without calling the function.
#[cfg(feature = "native")]
#[doc(hidden)]
#[macro_export]
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[allow(dead_code, reason = "other systems call it")]
        static $name: extern "C" fn() = $function;
    };
}

#[cfg(feature = "native")]
pub(crate) mod memory {
    /// Returns `None`. Job limits on Windows apply to committed memory instead of address space.
    pub fn address_space_limit() -> Option<u64> {
        None
    }
}

#[cfg(feature = "native")]
pub mod pages {
    use std::io;
    use std::ops::Range;
    use std::path::{Path, PathBuf};

    pub fn regular_file(_: &Path) -> io::Result<(u64, i64, u64)> {
        unsupported()
    }

    pub fn request(_: &Path, _: &[Range<u64>]) -> io::Result<()> {
        unsupported()
    }

    pub fn check_directory(_: &Path) -> io::Result<()> {
        unsupported()
    }

    pub fn read_trusted(_: &Path) -> io::Result<Vec<u8>> {
        unsupported()
    }

    pub fn program(_: u32) -> io::Result<PathBuf> {
        unsupported()
    }

    pub fn mapped(_: u32, _: impl Fn(&Path) -> bool) -> io::Result<Vec<(PathBuf, Vec<Range<u64>>)>> {
        unsupported()
    }

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "page lists are supported only on Linux"))
    }
}

/// Signals do not exist here. Ctrl-C ends this process, and Windows then ends the children.
#[cfg(feature = "processes")]
pub mod interruption {
    use std::convert::Infallible;

    pub type Signal = Infallible;

    pub struct Interruption(());

    impl Interruption {
        #[must_use]
        pub fn catch() -> Interruption {
            Interruption(())
        }

        #[must_use]
        pub fn signal(&self) -> Option<Signal> {
            None
        }
    }

    #[must_use]
    pub fn requests() -> u32 {
        0
    }

    pub fn end_by(signal: Signal) -> ! {
        match signal {}
    }
}

#[cfg(feature = "processes")]
pub(crate) mod processes {
    use std::ffi::OsString;

    /// Returns `None`. Windows has no documented function that reads variables of another process.
    pub fn variable_of(_process: u32, _name: &str) -> Option<OsString> {
        None
    }
}

#[cfg(feature = "processes")]
pub mod program {
    use std::ffi::OsString;
    use std::io::Result;
    use std::path::PathBuf;

    #[must_use]
    pub fn launcher() -> Vec<OsString> {
        Vec::new()
    }

    pub fn executable() -> Result<PathBuf> {
        std::env::current_exe()
    }
}

/// An administrator has to start the program with elevated rights, because Windows has no equivalent of `sudo`.
#[cfg(feature = "processes")]
pub mod rights {
    use std::fs::{File, Metadata};
    use std::io::Result;
    use std::path::Path;

    pub fn create_own_dir(dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir)
    }

    #[must_use]
    pub fn is_root() -> bool {
        false
    }

    #[must_use]
    pub fn is_of_root(_path: &Path) -> bool {
        false
    }

    #[must_use]
    pub fn belongs_to_user(_path: &Path) -> bool {
        true
    }

    #[must_use]
    pub fn can_write(_dir: &Path) -> bool {
        false
    }

    /// Checks nothing, because access control lists decide.
    pub fn write_access(_dir: &Path) -> Result<()> {
        Ok(())
    }

    #[must_use]
    pub fn others_may_write(_path: &Path) -> bool {
        false
    }

    #[must_use]
    pub fn is_only_of_root(_metadata: &Metadata) -> bool {
        true
    }

    #[must_use]
    pub fn is_sticky_of_root(_metadata: &Metadata) -> bool {
        false
    }

    #[must_use]
    pub fn is_noexec(_file: &Path) -> bool {
        false
    }

    /// Does nothing, because a new file inherits the rights of the directory.
    pub fn take_rights(_file: &File, _like: &Metadata) -> Result<()> {
        Ok(())
    }

    #[must_use]
    pub fn changes_rights(_program: &Path) -> bool {
        false
    }
}

#[cfg(feature = "testing")]
pub mod testing {
    use std::ffi::c_void;

    pub unsafe fn check_in_child(_: impl FnOnce() -> bool) -> Option<bool> {
        None
    }

    pub fn end_of_readable_memory(_: usize) -> Option<*mut c_void> {
        None
    }
}

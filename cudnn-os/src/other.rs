//! Systems that are neither Linux nor Windows: nothing is ever loaded, and each attempt says so. This needs only std.

#[cfg(feature = "processes")]
pub use crate::other_processes::{child, errors, memory_limits, pipes, processes, random};
#[cfg(feature = "processes")]
pub use crate::std_processes::{interruption, program, rights};
#[cfg(feature = "native")]
pub(crate) use crate::std_trusted_files as trusted_files;
#[cfg(feature = "testing")]
pub use crate::unsupported::testing;
#[cfg(feature = "native")]
pub use crate::unsupported::{cancel, fork, pages, signals};

/// Files and paths, as far as std knows them.
pub(crate) mod files {
    #[cfg(feature = "processes")]
    pub use crate::std_processes::files::{lock_dir, skip_hole, sync_dir};

    pub use crate::std_files::{bytes_of, is_like_tmp, is_setid, path_from_bytes, resolve_beside};

    use std::fs::File;
    use std::io::{self, Read, Seek, SeekFrom};
    use std::path::{Path, PathBuf};

    /// The path without symbolic links in it.
    pub type FileId = PathBuf;

    /// Returns what identifies the file at a path, whatever its name.
    pub fn file_id(path: &Path) -> Option<FileId> {
        std::fs::canonicalize(path).ok()
    }

    /// Returns `None`.
    pub fn inode(_path: &Path) -> Option<u64> {
        None
    }

    /// Returns the absolute path without symbolic links in it.
    ///
    /// # Errors
    /// The system's.
    pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    /// Returns `false`.
    pub fn is_executable(_path: &Path) -> bool {
        false
    }

    /// Returns an error: files have no permission bits.
    ///
    /// # Errors
    /// Always.
    pub fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns an error: not every user may create symbolic links.
    ///
    /// # Errors
    /// Always.
    pub fn symlink(_target: &Path, _link: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn is_device(_path: &Path) -> bool {
        false
    }

    pub(crate) fn open_without_blocking(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    /// Reads bytes at an offset of a file. Returns how many it read.
    ///
    /// # Errors
    /// The system's.
    pub fn read_at(mut file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(offset))?;
        file.read(into)
    }
}

/// The environment.
pub mod environment {
    use std::ffi::OsString;

    #[cfg(feature = "native")]
    pub use crate::std_environment::block;

    /// Returns `None`.
    pub fn initial_value(_name: &str) -> Option<Option<OsString>> {
        None
    }

    /// Returns the value of a variable as it is.
    pub fn without_quotes(value: OsString) -> OsString {
        value
    }

    /// Returns `false`: nothing here trusts the environment with more than a log.
    #[cfg(feature = "native")]
    #[must_use]
    pub fn is_secure_execution() -> bool {
        false
    }
}

/// Threads.
#[cfg(feature = "native")]
pub mod threads {
    pub use crate::std_threads::*;

    /// Returns a number for this thread.
    pub fn id() -> u32 {
        thread_local! {
            static HERE: u8 = const { 0 };
        }
        HERE.try_with(|here| std::ptr::from_ref(here).addr()).unwrap_or(1) as u32
    }
}

/// Times.
#[cfg(feature = "native")]
pub mod clock {
    use std::ffi::{OsStr, OsString};

    /// Returns a time after that of every file.
    pub fn file_time() -> i64 {
        i64::MAX
    }

    /// Returns the seconds since 1970 in place of a local time.
    pub fn local_time(_: &OsStr, seconds: u64) -> Option<OsString> {
        Some(seconds.to_string().into())
    }

    /// Returns the same time at any time.
    pub fn monotonic() -> u64 {
        0
    }
}

/// Tables of file descriptors.
#[cfg(feature = "native")]
pub mod descriptors {
    /// Returns `false`.
    #[must_use]
    pub fn leave_shared_table() -> bool {
        false
    }

    /// Returns `false`.
    pub fn leave_all() -> bool {
        false
    }
}

/// The end of the process.
#[cfg(feature = "native")]
pub mod exit {
    /// Whether other threads run while exit handlers do.
    pub const THREADS_RUN_ON: bool = false;

    /// Never calls the function.
    pub fn call_at_exit(_: extern "C" fn()) {}

    /// Returns `false`.
    pub fn is_first_thread() -> bool {
        false
    }
}

/// Libraries, of which none is ever loaded.
#[cfg(feature = "native")]
pub mod libraries {
    use std::ffi::{CStr, c_void};
    use std::path::{Path, PathBuf};

    /// There is none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Library(());

    impl Library {
        /// Returns an error.
        ///
        /// # Errors
        /// Always.
        ///
        /// # Safety
        /// Nothing is loaded.
        pub unsafe fn open(_: &Path) -> Result<Self, String> {
            Err("libraries can be opened on Linux and Windows only".into())
        }

        /// Returns an error.
        ///
        /// # Errors
        /// Always.
        ///
        /// # Safety
        /// Nothing is loaded.
        pub unsafe fn open_lazily(path: &Path) -> Result<Self, String> {
            // SAFETY: as above.
            unsafe { Library::open(path) }
        }

        /// Returns `None`.
        pub fn loaded(_: &Path) -> Option<Self> {
            None
        }

        /// Returns `None`.
        pub fn pin(_: &Path) -> Option<Self> {
            None
        }

        /// Returns `None`.
        pub fn symbol(self, _: &CStr) -> Option<*mut c_void> {
            None
        }

        /// Returns `true`.
        pub fn is_in_first_namespace(self) -> bool {
            true
        }
    }

    /// Returns `false`.
    pub fn is_loaded(_: &Path) -> bool {
        false
    }

    /// Returns `false`.
    pub fn exports(_: &Path, _: &CStr) -> bool {
        false
    }

    /// Does nothing.
    pub fn wait_for_lock() {}

    /// Returns `None`.
    pub fn system_dir() -> Option<PathBuf> {
        None
    }

    /// Returns `None`.
    pub fn added_dir() -> Option<PathBuf> {
        None
    }
}

/// Code that would run when the system loads a program or library.
#[cfg(feature = "native")]
pub mod load {
    /// Does nothing.
    pub fn keep_loaded() {}

    /// Expands to the items.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! in_section_of_slots {
        ($($item:tt)*) => {
            $($item)*
        };
    }
}

/// Text that is appended to files and streams.
#[cfg(feature = "native")]
pub mod text_file {
    use std::fs::File;
    use std::io::{Result, Write};
    use std::path::Path;

    /// A file or stream to which text is appended.
    pub struct TextFile(Destination);

    enum Destination {
        Stdout,
        Stderr,
        File(File),
    }

    impl TextFile {
        /// The standard output of the program.
        pub const fn stdout() -> Self {
            TextFile(Destination::Stdout)
        }

        /// The standard error of the program.
        pub const fn stderr() -> Self {
            TextFile(Destination::Stderr)
        }

        /// Opens a file to append to it, and creates it if need be.
        ///
        /// # Errors
        /// The system's.
        pub fn open(name: &Path) -> Result<Self> {
            TextFile::open_emptied(name, |_| false)
        }

        /// Opens a file to append to it, and empties it if `is_emptied` says so for the time 0.
        ///
        /// # Errors
        /// The system's.
        pub fn open_emptied(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Result<Self> {
            let file = File::options().create(true).append(true).open(name)?;
            if is_emptied(0) {
                file.set_len(0)?;
            }
            Ok(TextFile(Destination::File(file)))
        }

        /// Writes the text.
        ///
        /// # Errors
        /// The system's.
        pub fn write(&self, text: &[u8]) -> Result<()> {
            match &self.0 {
                Destination::Stdout => std::io::stdout().write_all(text),
                Destination::Stderr => std::io::stderr().write_all(text),
                Destination::File(file) => (&mut &*file).write_all(text),
            }
        }
    }

    /// Whether the path leads to something that no process empties.
    pub fn is_special(name: &Path) -> bool {
        std::fs::metadata(name).is_ok_and(|metadata| !metadata.is_file())
    }
}

/// The memory that the process may use.
#[cfg(feature = "native")]
pub mod memory {
    /// Returns `None`.
    pub fn address_space_limit() -> Option<u64> {
        None
    }
}

/// The list of loaded objects.
#[cfg(feature = "native")]
pub mod objects {
    use std::ffi::OsString;
    use std::path::PathBuf;

    /// One object of the list.
    pub struct Entry {
        /// The file.
        pub path: PathBuf,
        /// The load address.
        pub base: usize,
        /// The directories that the object asks the system to search.
        pub run_path: Option<OsString>,
    }

    impl Entry {
        /// Returns `false`.
        pub fn has_name(&self, _: &str) -> bool {
            false
        }

        /// Returns `false`.
        pub fn needs(&self, _: &str) -> bool {
            false
        }

        /// Returns `false`.
        pub fn is_program(&self) -> bool {
            false
        }
    }

    /// Returns an empty list.
    pub fn read_list() -> Vec<Entry> {
        Vec::new()
    }

    /// Returns 0.
    pub fn load_count() -> u64 {
        0
    }

    /// Returns `None`.
    pub fn containing_base() -> Option<usize> {
        None
    }

    /// Returns the path.
    pub fn absolute(path: PathBuf) -> PathBuf {
        path
    }
}

/// Reading ahead of time.
#[cfg(feature = "native")]
pub mod readahead {
    use std::io;
    use std::ops::Range;
    use std::path::Path;

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn request(_: &Path, _: Vec<Range<u64>>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file of records.
#[cfg(feature = "native")]
pub mod append_file {
    use std::io::{ErrorKind, Result};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    pub use crate::unsupported::uninterrupted;

    /// There is none.
    pub enum AppendFile {}

    impl AppendFile {
        /// Returns an error.
        ///
        /// # Errors
        /// Always.
        pub fn create_new(_: &Path) -> Result<Option<Self>> {
            Err(ErrorKind::Unsupported.into())
        }

        /// Returns an error.
        ///
        /// # Errors
        /// Always.
        pub fn remove(_: &Path, _: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
            Err(ErrorKind::Unsupported.into())
        }

        /// There is no file that has a path.
        pub fn path(&self) -> &Path {
            match *self {}
        }

        /// There is no file to append to.
        ///
        /// # Errors
        /// None.
        pub fn append(&self, _: &[u8], _: &AtomicBool) -> Result<()> {
            match *self {}
        }

        /// There is no file to close.
        pub fn close(&self) {
            match *self {}
        }
    }
}

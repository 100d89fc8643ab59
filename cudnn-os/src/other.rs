//! Stubs for systems other than Linux and Windows. They need only std, and neither load libraries nor start processes.

#[cfg(feature = "processes")]
use std::io::{Error, ErrorKind};

#[cfg(feature = "testing")]
pub use crate::not_linux::testing;
#[cfg(feature = "native")]
pub(crate) use crate::not_linux::trusted_files;
#[cfg(feature = "native")]
pub use crate::not_linux::{cancel, fork, pages};
#[cfg(feature = "processes")]
pub use crate::not_linux::{interruption, program, rights};

pub(crate) mod files {
    pub use crate::not_linux::files::*;

    use std::fs::File;
    use std::io::{self, Read, Seek, SeekFrom};
    use std::path::{Path, PathBuf};

    pub fn file_id(path: &Path) -> Option<FileId> {
        std::fs::canonicalize(path).ok()
    }

    pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    pub fn is_executable(_path: &Path) -> bool {
        false
    }

    pub(crate) fn is_device(_path: &Path) -> bool {
        false
    }

    // A killed process leaves the file.
    #[cfg(feature = "native")]
    pub fn create_temporary(name: &Path) -> io::Result<File> {
        let file = File::create_new(name)?;
        std::fs::remove_file(name)?;
        Ok(file)
    }

    pub fn read_at(mut file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(offset))?;
        file.read(into)
    }
}

pub mod environment {
    use std::ffi::OsString;

    pub use crate::not_linux::environment::*;

    pub fn without_quotes(value: OsString) -> OsString {
        value
    }
}

#[cfg(feature = "native")]
pub(crate) mod signals {
    pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
        start()
    }
}

#[cfg(feature = "native")]
pub mod threads {
    pub use crate::std_threads::*;

    pub fn id() -> u32 {
        thread_local! {
            static HERE: u8 = const { 0 };
        }
        HERE.try_with(|here| std::ptr::from_ref(here).addr()).unwrap_or(1) as u32
    }
}

#[cfg(feature = "native")]
pub mod clock {
    use std::ffi::{OsStr, OsString};

    pub fn file_time() -> i64 {
        i64::MAX
    }

    // Returns the seconds since 1970 instead.
    pub fn local_time(_: &OsStr, seconds: u64) -> Option<OsString> {
        Some(seconds.to_string().into())
    }

    pub fn monotonic() -> u64 {
        0
    }
}

#[cfg(feature = "native")]
pub mod descriptors {
    #[must_use]
    pub fn leave_shared_table() -> bool {
        false
    }

    pub fn leave_all() -> bool {
        false
    }
}

#[cfg(feature = "native")]
pub mod exit {
    pub use crate::not_linux::exit::*;

    pub fn call_at_exit(_: extern "C" fn()) {}
}

#[cfg(feature = "native")]
pub mod libraries {
    use std::ffi::{CStr, c_void};
    use std::path::{Path, PathBuf};

    use super::objects::Entry;
    use crate::open_error::OpenError;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Library(());

    impl Library {
        pub unsafe fn open(path: &Path) -> Result<Self, OpenError> {
            // SAFETY: as above.
            unsafe { open(path) }?.find(&[])
        }

        pub unsafe fn open_lazily(path: &Path) -> Result<Self, OpenError> {
            // SAFETY: as above.
            unsafe { Library::open(path) }
        }

        pub fn loaded(_: &Path) -> Option<Self> {
            None
        }

        pub fn symbol(self, _: &CStr) -> Option<*mut c_void> {
            None
        }

        pub fn other_owner(self, _: *const c_void) -> Option<PathBuf> {
            None
        }
    }

    pub enum Opened {}

    impl Opened {
        pub fn find(&self, _: &[Entry]) -> Result<Library, OpenError> {
            match *self {}
        }
    }

    pub unsafe fn open(_: &Path) -> Result<Opened, OpenError> {
        Err(OpenError::Refused("libraries can be opened on Linux and Windows only".into()))
    }

    pub fn pin(_: &Path) -> bool {
        false
    }

    pub fn is_loaded(_: &Path) -> bool {
        false
    }

    pub fn wait_for_lock() {}

    pub fn system_dir() -> Option<PathBuf> {
        None
    }

    pub fn added_dir() -> Option<PathBuf> {
        None
    }
}

#[cfg(feature = "native")]
pub mod memory {
    pub use crate::not_linux::memory::address_space_limit;

    pub const MAX_COPY: usize = 4096;

    /// Returns `None`, because no system call copies memory with a check of the addresses on all of these systems.
    pub fn copy(_address: usize, _len: usize) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(feature = "native")]
pub mod load {
    pub fn keep_loaded() {}

    #[doc(hidden)]
    #[macro_export]
    macro_rules! in_section_of_slots {
        ($($item:tt)*) => {
            $($item)*
        };
    }
}

#[cfg(feature = "native")]
pub mod text_file {
    use std::fs::File;
    use std::io::{Result, Write};
    use std::path::Path;

    pub struct TextFile(Destination);

    enum Destination {
        Stdout,
        Stderr,
        File(File),
    }

    impl TextFile {
        pub const fn stdout() -> Self {
            TextFile(Destination::Stdout)
        }

        pub const fn stderr() -> Self {
            TextFile(Destination::Stderr)
        }

        pub fn open(name: &Path) -> Result<Self> {
            TextFile::open_emptied(name, |_| false)
        }

        pub fn open_emptied(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Result<Self> {
            let file = File::options().create(true).append(true).open(name)?;
            if is_emptied(0) {
                file.set_len(0)?;
            }
            Ok(TextFile(Destination::File(file)))
        }

        pub fn write(&self, text: &[u8]) -> Result<()> {
            match &self.0 {
                Destination::Stdout => std::io::stdout().write_all(text),
                Destination::Stderr => std::io::stderr().write_all(text),
                Destination::File(file) => (&mut &*file).write_all(text),
            }
        }
    }

    pub fn is_trusted_link(_path: &Path) -> bool {
        true
    }

    pub fn is_special(name: &Path) -> bool {
        std::fs::metadata(name).is_ok_and(|metadata| !metadata.is_file())
    }
}

#[cfg(feature = "native")]
pub mod objects {
    use std::ffi::{OsString, c_void};
    use std::path::PathBuf;

    use super::libraries::Library;

    pub struct Entry {
        pub path: PathBuf,
        pub run_path: Option<OsString>,
        library: Library,
    }

    impl Entry {
        pub fn library(&self) -> Library {
            self.library
        }

        pub fn contains(&self, _: *const c_void) -> bool {
            false
        }

        pub fn has_name(&self, _: &str) -> bool {
            false
        }

        pub fn needs(&self, _: &str) -> bool {
            false
        }

        pub fn is_program(&self) -> bool {
            false
        }
    }

    pub fn read_list() -> Vec<Entry> {
        Vec::new()
    }

    pub fn load_count() -> u64 {
        0
    }

    pub fn absolute(path: PathBuf) -> PathBuf {
        path
    }
}

#[cfg(feature = "native")]
pub mod readahead {
    use std::io;
    use std::ops::Range;
    use std::path::Path;

    pub fn request(_: &Path, _: Vec<Range<u64>>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(feature = "native")]
pub mod append_file {
    use std::io::{ErrorKind, Result};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    pub use crate::not_linux::uninterrupted;

    pub enum AppendFile {}

    impl AppendFile {
        pub fn create_new(_: &Path) -> Result<Option<Self>> {
            Err(ErrorKind::Unsupported.into())
        }

        pub fn remove(_: &Path, _: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
            Err(ErrorKind::Unsupported.into())
        }

        pub fn path(&self) -> &Path {
            match *self {}
        }

        pub fn append(&self, _: &[u8], _: &AtomicBool) -> Result<()> {
            match *self {}
        }

        pub fn close(&self) {
            match *self {}
        }
    }
}

#[cfg(feature = "processes")]
fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "processes can be started on Linux and Windows only")
}

#[cfg(feature = "processes")]
pub mod child {
    use std::io::{Error, Result};
    use std::process::{Command, ExitStatus};

    use super::unsupported;

    pub fn prepare() {}

    pub fn end_with_parent() {}

    pub fn end_child_with_this_process(_command: &mut Command) {}

    pub fn keep_open(_command: &mut Command, _file: &std::fs::File) {}

    pub fn keep_from_interruption(_command: &mut Command) {}

    pub fn end_group(child: &mut std::process::Child) -> Result<ExitStatus> {
        child.kill()?;
        child.wait()
    }

    pub fn become_program(_command: &mut Command, _then: Option<&dyn Fn()>) -> Error {
        unsupported()
    }

    #[must_use]
    pub fn crash_number(_status: ExitStatus) -> Option<i32> {
        None
    }

    #[must_use]
    pub fn failure(status: ExitStatus) -> String {
        format!("failed with {status}")
    }

    pub enum Child {}

    impl Child {
        pub fn start(_command: Command, _has_session: bool) -> Result<Child> {
            Err(unsupported())
        }

        #[must_use]
        pub fn has_ended(&self) -> bool {
            match *self {}
        }

        pub fn end(&mut self) -> Result<Option<ExitStatus>> {
            match *self {}
        }

        #[must_use]
        pub fn activity(&self) -> Option<(u64, u64)> {
            match *self {}
        }
    }
}

#[cfg(feature = "processes")]
pub mod errors {
    use std::io::{Error, ErrorKind};

    #[must_use]
    pub fn limit_of_open_files(_error: &Error) -> Option<u64> {
        None
    }

    #[must_use]
    pub fn is_closed_pipe(error: &Error) -> bool {
        error.kind() == ErrorKind::BrokenPipe
    }

    #[must_use]
    pub fn is_lack_of_resources(_error: &Error) -> bool {
        false
    }

    #[must_use]
    pub fn is_lack_of_files(_error: &Error) -> bool {
        false
    }
}

#[cfg(feature = "processes")]
pub mod memory_limits {
    #[derive(Clone, Debug, Default)]
    pub struct MemoryLimits(());

    impl MemoryLimits {
        #[must_use]
        pub fn read() -> MemoryLimits {
            MemoryLimits(())
        }

        #[must_use]
        pub fn explains(&self, _number: Option<i32>, _stderr: &str) -> Option<String> {
            None
        }

        #[must_use]
        pub fn explains_message(&self, _message: &str) -> Option<String> {
            None
        }
    }
}

#[cfg(feature = "processes")]
pub mod pipes {
    use std::io::Result;
    use std::process::Stdio;

    use super::unsupported;

    pub enum Pipe {}

    impl Pipe {
        pub fn read(&mut self, _into: &mut [u8]) -> Result<usize> {
            match *self {}
        }

        pub fn write(&mut self, _bytes: &[u8]) -> Result<usize> {
            match *self {}
        }
    }

    pub fn pipe() -> Result<(Pipe, Stdio)> {
        Err(unsupported())
    }

    pub fn channel(_text: &[u8]) -> Result<(Pipe, Stdio)> {
        Err(unsupported())
    }

    pub fn receive(_into: &mut [u8]) -> Option<usize> {
        None
    }

    pub fn report(_bytes: &[u8]) -> Result<()> {
        Err(unsupported())
    }
}

#[cfg(feature = "processes")]
pub mod processes {
    use std::io::Result;
    use std::path::{Path, PathBuf};

    pub use crate::not_linux::processes::*;

    use super::unsupported;

    pub const MAX_ID: i64 = u32::MAX as i64;

    pub fn libraries_of(_process: u32) -> Result<Vec<PathBuf>> {
        Err(unsupported())
    }

    pub fn users_of(_file: &Path) -> Option<Vec<String>> {
        None
    }

    pub fn program_of(_process: u32) -> Option<PathBuf> {
        None
    }

    pub fn names_of_parents() -> Vec<String> {
        Vec::new()
    }
}

#[cfg(feature = "processes")]
pub mod random {
    use std::io::Result;

    use super::unsupported;

    pub fn fill(_into: &mut [u8]) -> Result<()> {
        Err(unsupported())
    }
}

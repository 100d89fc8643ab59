//! Windows.

/// A file of records.
pub(crate) mod append_file {
    use std::fs::{File, OpenOptions};
    use std::io::{Error, ErrorKind, Read, Result, Write};
    use std::os::windows::fs::OpenOptionsExt;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    use crate::lock::Lock;

    /// Others may read the file, and neither write to it nor delete it.
    const FILE_SHARE_READ: u32 = 1;

    /// An open file.
    pub(crate) struct AppendFile {
        file: File,
        /// Wine looks for the end of a file and then writes there, so threads must take turns.
        turn: Lock<()>,
        path: PathBuf,
    }

    impl AppendFile {
        /// Creates a file that does not exist yet, at an absolute path.
        pub(crate) fn create_new(path: &Path) -> Result<Option<Self>> {
            let file = OpenOptions::new().append(true).create_new(true).share_mode(FILE_SHARE_READ).open(path)?;
            Ok(Some(AppendFile { file, turn: Lock::new(()), path: path.to_owned() }))
        }

        /// Removes a file so that its name is free. `false` if a process is writing to it.
        pub(crate) fn remove(path: &Path, may_be_removed: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
            match path.symlink_metadata() {
                Ok(metadata) if !metadata.is_file() => return Err(Error::other("it is not a regular file")),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
                _ => {}
            }
            let mut start = Vec::new();
            File::open(path)?.take(64).read_to_end(&mut start)?;
            if !may_be_removed(&start) {
                return Err(Error::new(ErrorKind::AlreadyExists, "it exists, and it is not a trace"));
            }
            Ok(std::fs::remove_file(path).is_ok())
        }

        /// Its path.
        pub(crate) fn path(&self) -> &Path {
            &self.path
        }

        /// Appends the record with one write (FILE_APPEND_DATA), of which nothing is written if it fails.
        pub(crate) fn append(&self, record: &[u8], _: &AtomicBool) -> Result<()> {
            // After a second without it, which a thread that was ended may have kept, the record is written all the
            // same.
            let _turn = self.turn.lock();
            (&self.file).write_all(record)
        }

        /// There is no fork.
        pub(crate) fn close(&self) {}
    }

    /// There are no signals.
    pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// The monotonic clock.
pub(crate) mod clock {
    use std::sync::OnceLock;

    use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

    /// Nanoseconds since the machine started: the performance counter, which other tracers use too.
    #[inline]
    pub(crate) fn now() -> u64 {
        static FREQUENCY: OnceLock<u64> = OnceLock::new();
        let frequency = *FREQUENCY.get_or_init(|| {
            let mut frequency = 0;
            // SAFETY: the answer has room. The call cannot fail since Windows XP.
            unsafe { QueryPerformanceFrequency(&raw mut frequency) };
            u64::try_from(frequency).unwrap_or_default().max(1)
        });
        let mut counter = 0;
        // SAFETY: as above.
        unsafe { QueryPerformanceCounter(&raw mut counter) };
        let time = u128::from(counter.cast_unsigned()) * 1_000_000_000 / u128::from(frequency);
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// There is no `fork`.
pub(crate) mod fork {
    /// Never calls these.
    pub(crate) fn call_at_forks(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}

    /// Returns a number that is 0 until somebody changes it.
    #[inline]
    pub(crate) fn word() -> &'static std::sync::atomic::AtomicU32 {
        static WORD: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        &WORD
    }

    /// There is nothing to prepare.
    pub(crate) fn prepare_word() {}
}

/// Libraries of others.
pub(crate) mod libraries {
    use std::ffi::{CStr, c_void};
    use std::os::windows::ffi::OsStrExt;
    use std::path::Path;

    use windows_sys::Win32::Foundation::HMODULE;
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExA, GetProcAddress, LoadLibraryW,
    };

    /// The name of the driver's library.
    pub(crate) const DRIVER: &CStr = c"nvcuda.dll";

    /// A library that is never closed.
    #[derive(Clone, Copy)]
    pub(crate) struct Library(HMODULE);

    impl Library {
        /// The library of this name, if the process has loaded it. It stays loaded from now on.
        pub(crate) fn loaded(name: &CStr) -> Option<Self> {
            let mut handle = std::ptr::null_mut();
            // SAFETY: the name is a string, and the answer has room.
            let found =
                unsafe { GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN, name.as_ptr().cast(), &raw mut handle) };
            (found != 0).then_some(Library(handle))
        }

        /// Loads a library.
        pub(crate) fn open(path: &Path) -> Option<Self> {
            let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
            // SAFETY: the library's entry point runs, as whoever named it expects.
            let handle = unsafe { LoadLibraryW(path.as_ptr()) };
            (!handle.is_null()).then_some(Library(handle))
        }

        /// The address of a symbol.
        pub(crate) fn symbol(self, name: &CStr) -> Option<*mut c_void> {
            // SAFETY: the library was never unloaded.
            let address = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) };
            address.map(|address| address as *mut c_void)
        }
    }
}

/// This process and its threads.
pub(crate) mod process {
    use std::ffi::c_int;

    use windows_sys::Win32::System::Threading::GetCurrentThreadId;

    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }

    /// There is no such mode.
    pub(crate) fn is_secure_execution() -> bool {
        false
    }

    /// The number of this process.
    pub(crate) fn id() -> u32 {
        std::process::id()
    }

    /// The number of this thread, unique in the system.
    pub(crate) fn thread_id() -> u32 {
        // SAFETY: the call takes nothing and cannot fail.
        unsafe { GetCurrentThreadId() }
    }

    /// Calls the function when the C library of this DLL ends: when the process exits, after its other threads ended.
    pub(crate) fn call_at_exit(function: extern "C" fn()) {
        // SAFETY: the function is of the right type, and the loader never unloads a layer.
        let _: c_int = unsafe { atexit(function) };
    }
}

/// Text that is appended in complete pieces.
pub(crate) mod text_file {
    use std::fs::{File, OpenOptions};
    use std::io::{Result, Write};
    use std::path::Path;

    /// Where text goes.
    pub(crate) enum TextFile {
        Stdout,
        Stderr,
        File(File),
    }

    impl TextFile {
        pub(crate) fn stdout() -> Self {
            TextFile::Stdout
        }

        pub(crate) fn stderr() -> Self {
            TextFile::Stderr
        }

        /// Opens a file to append to it (FILE_APPEND_DATA), and creates it if need be.
        pub(crate) fn open(name: &Path) -> Result<Self> {
            OpenOptions::new().append(true).create(true).open(name).map(TextFile::File)
        }

        pub(crate) fn write(&self, text: &[u8]) -> Result<()> {
            match self {
                TextFile::Stdout => std::io::stdout().write_all(text),
                TextFile::Stderr => std::io::stderr().write_all(text),
                TextFile::File(file) => (&mut &*file).write_all(text),
            }
        }
    }
}

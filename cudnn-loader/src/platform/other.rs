//! Systems for which there is no cuDNN: nothing is ever loaded, and each attempt answers so.

pub(crate) use super::std_threads as threads;
pub(crate) use super::unneeded::{cancel, fork};

/// A number for this thread.
pub(crate) fn thread_id() -> i64 {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.try_with(|here| std::ptr::from_ref(here).addr()).unwrap_or(1) as i64
}

pub(crate) mod clock {
    use std::ffi::{OsStr, OsString};

    pub(crate) fn file_time() -> i64 {
        i64::MAX
    }

    /// The seconds since 1970 in place of a local time.
    pub(crate) fn local_time(_: &OsStr, seconds: u64) -> Option<OsString> {
        Some(seconds.to_string().into())
    }
}

pub(crate) mod descriptors {
    #[must_use]
    pub(crate) fn leave_shared_table() -> bool {
        false
    }
}

pub(crate) mod exit {
    pub(crate) const THREADS_RUN_ON: bool = false;

    pub(crate) fn call_at_exit(_: extern "C" fn()) {}

    pub(crate) fn is_first_thread() -> bool {
        false
    }
}

pub(crate) mod libraries {
    use std::ffi::{CStr, c_void};
    use std::path::Path;

    use crate::dl::dlerror::{DlErrorKind, OpenError};

    /// There is none.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Handle {}

    pub(crate) const HAS_CUDNN: bool = false;

    /// # Errors
    /// Always.
    pub(crate) fn open(_: &Path) -> Result<Handle, OpenError> {
        Err(OpenError { cause: DlErrorKind::Other, message: "NVIDIA makes its libraries for Linux and Windows".into() })
    }

    pub(crate) fn driver_path() -> &'static str {
        super::names::driver_file!()
    }

    pub(crate) fn open_loaded(_: &str) -> Option<Handle> {
        None
    }

    pub(crate) fn pin(_: &Path) -> Option<Handle> {
        None
    }

    pub(crate) fn exports(_: &Path, _: &CStr) -> bool {
        false
    }

    pub(crate) fn wait_for_lock() {}

    pub(crate) fn is_in_first_namespace(handle: Handle) -> bool {
        match handle {}
    }

    pub(crate) fn symbol(handle: &Handle, _: &CStr) -> Option<*mut c_void> {
        match *handle {}
    }

    /// Nothing here trusts the environment with more than a log.
    #[must_use]
    pub fn is_secure_execution() -> bool {
        false
    }
}

pub(crate) mod load {
    /// Nothing.
    pub fn keep_loaded() {}

    /// Defines a static with this name, and does not call the function.
    macro_rules! at_load {
        ($name:ident: $function:path) => {
            #[allow(dead_code, reason = "other systems call it")]
            static $name: extern "C" fn() = $function;
        };
    }

    macro_rules! in_section_of_slots {
        ($($item:tt)*) => {
            $($item)*
        };
    }

    pub(crate) use {at_load, in_section_of_slots};
}

pub(crate) mod log_file {
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    pub(crate) struct LogFile(File);

    impl LogFile {
        pub(crate) fn open(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Option<Self> {
            let file = File::options().create(true).append(true).open(name).ok()?;
            if is_emptied(0) {
                file.set_len(0).ok()?;
            }
            Some(LogFile(file))
        }

        pub(crate) fn is_replaced(&self) -> bool {
            false
        }

        pub(crate) fn write(&mut self, text: &[u8]) {
            let _ = self.0.write_all(text);
        }
    }

    pub(crate) fn is_special(name: &Path) -> bool {
        std::fs::metadata(name).is_ok_and(|metadata| !metadata.is_file())
    }

    pub(crate) fn write_to_stdout(text: &[u8]) {
        let _ = std::io::stdout().write_all(text);
    }

    pub(crate) fn write_to_stderr(text: &[u8]) {
        let _ = std::io::stderr().write_all(text);
    }
}

pub(super) mod signals {
    /// Runs it.
    pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
        start()
    }
}

pub(crate) mod memory {
    pub(crate) fn is_limited() -> bool {
        false
    }
}

/// Messages name files as on Linux.
#[path = "linux/names.rs"]
pub(crate) mod names;

pub(crate) mod objects {
    use std::ffi::OsString;
    use std::path::PathBuf;

    pub(crate) struct Entry {
        pub(crate) path: PathBuf,
        pub(crate) base: usize,
        pub(crate) run_path: Option<OsString>,
    }

    impl Entry {
        pub(crate) fn has_name(&self, _: &str) -> bool {
            false
        }

        pub(crate) fn needs(&self, _: &str) -> bool {
            false
        }

        pub(crate) fn is_program(&self) -> bool {
            false
        }
    }

    /// Nothing that can be cuDNN.
    pub(crate) fn read_list() -> Vec<Entry> {
        Vec::new()
    }

    pub(crate) fn load_count() -> u64 {
        0
    }

    pub(crate) fn containing_base() -> Option<usize> {
        None
    }

    pub(crate) fn absolute(path: PathBuf) -> PathBuf {
        path
    }
}

pub(crate) mod readahead {
    use std::io;
    use std::ops::Range;
    use std::path::Path;

    pub(crate) fn request(_: &Path, _: Vec<Range<u64>>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) mod search {
    use std::path::PathBuf;

    use cudnn_probe::Host;

    pub(crate) const FINDS_PLUGINS: bool = true;

    pub(crate) struct SearchPath(());

    impl SearchPath {
        pub(crate) fn new(_: &Host) -> Self {
            SearchPath(())
        }

        pub(crate) fn resolve(&self, _: &str, _: &[PathBuf]) -> Option<PathBuf> {
            None
        }
    }

    pub(crate) fn is_in_working_dir(_: &SearchPath, _: &str) -> bool {
        false
    }
}

//! Systems for which there is no cuDNN: this compiles, and no layer is ever called.

/// A file of records.
pub(crate) mod append_file {
    use std::io::{Error, ErrorKind, Result};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    /// There is none.
    pub(crate) enum AppendFile {}

    impl AppendFile {
        pub(crate) fn create_new(_: &Path) -> Result<Option<Self>> {
            Err(Error::from(ErrorKind::Unsupported))
        }

        pub(crate) fn remove(_: &Path, _: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
            Err(Error::from(ErrorKind::Unsupported))
        }

        pub(crate) fn path(&self) -> &Path {
            match *self {}
        }

        pub(crate) fn append(&self, _: &[u8], _: &AtomicBool) -> Result<()> {
            match *self {}
        }

        pub(crate) fn close(&self) {
            match *self {}
        }
    }

    /// There are no signals.
    pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// The monotonic clock.
pub(crate) mod clock {
    /// The same time at any time.
    pub(crate) fn now() -> u64 {
        0
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
    use std::path::Path;

    pub(crate) const DRIVER: &CStr = c"";

    /// There is none.
    #[derive(Clone, Copy)]
    pub(crate) enum Library {}

    impl Library {
        pub(crate) fn loaded(_: &CStr) -> Option<Self> {
            None
        }

        pub(crate) fn open(_: &Path) -> Option<Self> {
            None
        }

        pub(crate) fn symbol(self, _: &CStr) -> Option<*mut c_void> {
            match self {}
        }
    }
}

/// This process and its threads.
pub(crate) mod process {
    pub(crate) fn is_secure_execution() -> bool {
        false
    }

    pub(crate) fn id() -> u32 {
        std::process::id()
    }

    pub(crate) fn thread_id() -> u32 {
        0
    }

    pub(crate) fn call_at_exit(_: extern "C" fn()) {}
}

/// Text that is appended in complete pieces.
pub(crate) mod text_file {
    use std::io::{Error, ErrorKind, Result};
    use std::path::Path;

    /// Nowhere.
    pub(crate) struct TextFile;

    impl TextFile {
        pub(crate) fn stdout() -> Self {
            TextFile
        }

        pub(crate) fn stderr() -> Self {
            TextFile
        }

        pub(crate) fn open(_: &Path) -> Result<Self> {
            Err(Error::from(ErrorKind::Unsupported))
        }

        pub(crate) fn write(&self, _: &[u8]) -> Result<()> {
            Err(Error::from(ErrorKind::Unsupported))
        }
    }
}

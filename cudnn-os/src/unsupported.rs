//! Functions for systems on which threads are not cancelled, processes do not fork, and nobody knows which pages are mapped:
//! Windows, where `TerminateThread` unwinds nothing, and systems on which nothing is ever loaded.

/// Preserves what a program must not notice of system calls in its threads: nothing.
pub mod cancel {
    /// Does nothing on this system.
    #[derive(Debug)]
    pub struct ThreadStateGuard(());

    impl ThreadStateGuard {
        /// Does nothing.
        #[must_use]
        #[allow(clippy::new_without_default, reason = "a guard has no default value")]
        pub fn new() -> Self {
            ThreadStateGuard(())
        }
    }

    impl Drop for ThreadStateGuard {
        fn drop(&mut self) {}
    }
}

/// There is no `fork`.
pub mod fork {
    use std::sync::atomic::AtomicU32;

    /// Never calls these.
    pub fn call_at_forks(_: unsafe extern "C" fn(), _: unsafe extern "C" fn(), _: unsafe extern "C" fn()) {}

    /// Returns a number that is 0 until somebody changes it.
    #[inline]
    pub fn word() -> &'static AtomicU32 {
        static WORD: AtomicU32 = AtomicU32::new(0);
        &WORD
    }

    /// Does nothing.
    pub fn prepare_word() {}
}

/// There are no signals.
pub mod signals {
    /// Runs `start`.
    pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
        start()
    }

    /// Runs `work`.
    pub(crate) fn with_all_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// Pages of mapped files, on systems that do not say which pages of files a process has mapped.
pub mod pages {
    use std::io;
    use std::ops::Range;
    use std::path::{Path, PathBuf};

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn regular_file(_: &Path) -> io::Result<(u64, i64, u64)> {
        unsupported()
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn request(_: &Path, _: &[Range<u64>]) -> io::Result<()> {
        unsupported()
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn check_directory(_: &Path) -> io::Result<()> {
        unsupported()
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn read_trusted(_: &Path) -> io::Result<Vec<u8>> {
        unsupported()
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn program(_: u32) -> io::Result<PathBuf> {
        unsupported()
    }

    /// Returns an error.
    ///
    /// # Errors
    /// Always.
    pub fn mapped(_: u32, _: impl Fn(&Path) -> bool) -> io::Result<Vec<(PathBuf, Vec<Range<u64>>)>> {
        unsupported()
    }

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "lists of pages are kept only on Linux"))
    }
}

/// Helpers for the tests of other crates.
#[cfg(feature = "testing")]
pub mod testing {
    use std::ffi::c_void;

    /// Returns `None`.
    ///
    /// # Safety
    /// Nothing is run.
    pub unsafe fn check_in_child(_: impl FnOnce() -> bool) -> Option<bool> {
        None
    }

    /// Returns `None`.
    pub fn end_of_readable_memory(_: usize) -> Option<*mut c_void> {
        None
    }
}

/// Does work in which no handler of the program runs: there are no signals.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Defines a static with this name, and does not call the function.
#[doc(hidden)]
#[macro_export]
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[allow(dead_code, reason = "other systems call it")]
        static $name: extern "C" fn() = $function;
    };
}

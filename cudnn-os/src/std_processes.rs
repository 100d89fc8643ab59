//! Functions for systems on which access rights are not those of Linux, and no signal has to be noted while a child runs:
//! Windows, and systems for which there is no implementation.

/// Files. Their owners decide nothing here.
pub(crate) mod files {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    /// Does nothing: files have no holes that have to be skipped.
    ///
    /// # Errors
    /// None.
    pub fn skip_hole(_file: &File) -> io::Result<()> {
        Ok(())
    }

    /// Returns `None`: no directory is locked.
    ///
    /// # Errors
    /// None.
    pub fn lock_dir(_dir: &Path) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Does nothing.
    pub fn sync_dir(_dir: &Path) {}
}

/// There are no signals: Ctrl-C ends this process, and the system ends its children.
pub mod interruption {
    use std::convert::Infallible;

    /// The number of a signal.
    pub type Signal = Infallible;

    /// Notes nothing.
    pub struct Interruption(());

    impl Interruption {
        /// Does nothing.
        #[must_use]
        pub fn catch() -> Interruption {
            Interruption(())
        }

        /// Returns `None`.
        #[must_use]
        pub fn signal(&self) -> Option<Signal> {
            None
        }
    }

    /// Is never called.
    pub fn end_by(signal: Signal) -> ! {
        match signal {}
    }
}

/// How this program was started: in the only way.
pub mod program {
    use std::ffi::OsString;
    use std::io::Result;
    use std::path::PathBuf;

    /// Returns an empty list.
    #[must_use]
    pub fn launcher() -> Vec<OsString> {
        Vec::new()
    }

    /// Returns this program's file.
    ///
    /// # Errors
    /// The system's.
    pub fn executable() -> Result<PathBuf> {
        std::env::current_exe()
    }
}

/// The owners and the permissions of files and programs. An administrator's rights are those of a program that was started
/// with them, and no prefix of a command gives them.
pub mod rights {
    use std::fs::{File, Metadata};
    use std::io::Result;
    use std::path::Path;

    /// Creates a directory and those above it.
    ///
    /// # Errors
    /// The system's.
    pub fn create_own_dir(dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir)
    }

    /// Returns `false`.
    #[must_use]
    pub fn is_root() -> bool {
        false
    }

    /// Returns `false`.
    #[must_use]
    pub fn belongs_to_root(_path: &Path) -> bool {
        false
    }

    /// Returns `false`.
    #[must_use]
    pub fn is_of_root(_path: &Path) -> bool {
        false
    }

    /// Returns `true`.
    #[must_use]
    pub fn belongs_to_user(_path: &Path) -> bool {
        true
    }

    /// Returns `false`.
    #[must_use]
    pub fn can_write(_dir: &Path) -> bool {
        false
    }

    /// Returns `None`.
    #[must_use]
    pub fn mode(_path: &Path) -> Option<u32> {
        None
    }

    /// Returns `false`.
    #[must_use]
    pub fn others_may_write(_path: &Path) -> bool {
        false
    }

    /// Returns `false`: no file system keeps programs from being executed.
    #[must_use]
    pub fn is_noexec(_file: &Path) -> bool {
        false
    }

    /// Does nothing: a new file has the rights of its directory.
    ///
    /// # Errors
    /// None.
    pub fn take_rights(_file: &File, _like: &Metadata) -> Result<()> {
        Ok(())
    }

    /// Returns `false`.
    #[must_use]
    pub fn changes_rights(_program: &Path) -> bool {
        false
    }
}

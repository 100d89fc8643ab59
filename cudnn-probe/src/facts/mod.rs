//! Reads information from the system, or from facts that were saved on a different machine.
//!
//! All diagnostic code of this workspace reads the system through this module, which makes a diagnosis depend only on
//! the recorded answers. Within [`Facts::within`], answers are either recorded or replayed.

mod files;
#[cfg(feature = "serde")]
mod record;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use files::{
    DirEntry, Entries, FileKind, Metadata, PathFacts, canonicalize, entries_named, metadata, read_bounded, read_dir,
    read_link, read_start, symlink_metadata,
};
#[cfg(feature = "serde")]
pub use record::{Answer, Facts, are_saved, ask, is_active};

/// Answers a question about a subject. Saved facts need the feature `serde`.
#[cfg(not(feature = "serde"))]
pub fn ask<T>(_question: &'static str, _subject: impl AsRef<OsStr>, read: impl FnOnce() -> T) -> T {
    read()
}

/// Returns whether answers come from saved facts instead of this system.
#[cfg(not(feature = "serde"))]
#[must_use]
pub fn are_saved() -> bool {
    false
}

/// Checks whether the current user may open a file for reading.
///
/// # Errors
/// Returns an error if the system call fails.
pub fn open(file: &Path) -> std::io::Result<()> {
    ask("opening", file, || std::fs::File::open(file).map(drop))
}

/// Returns whether the current user can execute this file.
#[must_use]
pub fn is_executable(file: &Path) -> bool {
    ask("executable", file, || cudnn_os::files::is_executable(file))
}

/// Returns the absolute path without accessing the file.
///
/// # Errors
/// Returns an error if the path is empty or the working directory was deleted.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    if path.is_absolute() {
        return std::path::absolute(path);
    }
    ask("absolute path", path, || std::path::absolute(path))
}

/// Returns whether other users can add files to this directory, as in `/tmp`.
#[must_use]
pub fn is_like_tmp(dir: &Path) -> bool {
    ask("directory like /tmp", dir, || cudnn_os::files::is_like_tmp(dir))
}

/// Returns whether the program runs with the rights of another user or group (setuid or setgid).
pub(crate) fn is_setid(program: &Path) -> bool {
    ask("setuid program", program, || cudnn_os::files::is_setid(program))
}

/// Returns the value of an environment variable of this process.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    ask("variable", OsStr::new(name), || std::env::var_os(name))
}

/// Returns the working directory of this process.
///
/// # Errors
/// Returns an error if the directory was deleted or access is denied.
pub fn current_dir() -> std::io::Result<PathBuf> {
    ask("working directory", "", std::env::current_dir)
}

/// Returns the executable file of this process.
///
/// # Errors
/// Returns an error if the system cannot provide the path.
pub fn current_exe() -> std::io::Result<PathBuf> {
    ask("program", "", std::env::current_exe)
}

#[cfg(all(test, feature = "serde"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn recorded_answers_are_given_again_without_a_look_at_the_system() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-facts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "text").unwrap();
        let look = || {
            let names: Vec<_> = read_dir(&dir).unwrap().flatten().map(|entry| entry.path()).collect();
            let text = read_bounded(&dir.join("file"), 9).unwrap();
            let absent = read_bounded(&dir.join("absent"), 9).unwrap_err().to_string();
            let long = read_bounded(&dir.join("file"), 3).unwrap_err().to_string();
            (
                names,
                text,
                absent,
                long,
                dir.join("file").leads_to_file(),
                dir.join("absent").target_exists(),
                variable("PATH"),
            )
        };
        let recorder = Facts::recorder();
        let seen = recorder.within(look);
        assert_eq!(seen, look());
        std::fs::remove_dir_all(&dir).unwrap();
        let saved = Facts::from_value(recorder.to_value()).unwrap();
        assert_eq!(saved.within(look), seen);
        assert!(!is_active());
    }

    #[test]
    fn what_facts_do_not_mention_does_not_exist() {
        let nothing = Facts::from_value(serde_json::json!({})).unwrap();
        nothing.within(|| {
            assert!(!Path::new("/").leads_to_dir() && read_dir("/").is_err() && variable("PATH").is_none());
            assert!(are_saved());
        });
    }

    #[test]
    fn only_the_outer_of_two_questions_is_recorded() {
        let recorder = Facts::recorder();
        recorder.within(|| ask("outer", "subject", || ask("inner", "subject", || true)));
        assert_eq!(recorder.to_value(), serde_json::json!({ "outer": { "subject": true } }));
    }
}

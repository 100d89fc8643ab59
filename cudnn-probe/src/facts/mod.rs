//! Answers questions about the system, and records, replays and changes the answers.
//!
//! A fact is the answer to a question, such as the entries of a directory, the dependencies of a library, or the value
//! of a variable. This crate reads the system only through the functions of this module, which mirror [`std::fs`] and
//! [`std::env`](mod@std::env), and through [`ask`], which defines further questions. Your own code can use the same
//! functions.
//!
//! Usually, the system answers. With the feature `serde`, [`Facts::within`] runs code with other answers:
//!
//! - [`Facts::recorder`] also records the answers of the system.
//! - [`Facts::from_value`] replays recorded answers instead of reading the system, for example on another machine.
//! - [`Facts::after`] gives the answers as they would be after [`Changes`], for example after an installation.
//!
//! ```
//! # #[cfg(feature = "serde")] {
//! use std::path::Path;
//!
//! use cudnn_probe::facts::{Changes, Facts, PathFacts};
//! use cudnn_probe::{Host, Requirements, Search, select};
//!
//! let diagnose = || select(&Search::new(Host::current()), &Requirements::new()).into_result().is_ok();
//!
//! let recorder = Facts::recorder();
//! let is_usable = recorder.within(diagnose);
//!
//! // On another machine, the recorded answers give the same result.
//! let recorded = Facts::from_value(recorder.to_value())?;
//! assert_eq!(recorded.within(diagnose), is_usable);
//! // Unrecorded files do not exist.
//! assert!(!recorded.within(|| Path::new("/no/question/names/it").path_exists()));
//!
//! // Would it work without `LD_LIBRARY_PATH`?
//! let mut changes = Changes::default();
//! changes.set_variable("LD_LIBRARY_PATH", None);
//! println!("{}", recorder.after(changes).within(diagnose));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Recorded facts contain paths, variables and texts of the machine, so check them before you publish them.
//!
//! This module is unstable: it can change in every release.

#[cfg(feature = "serde")]
mod changes;
mod files;
#[cfg(feature = "serde")]
mod portable;
#[cfg(feature = "serde")]
mod record;
mod subject;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

#[cfg(feature = "serde")]
pub use changes::Changes;
pub use files::{
    DirEntry, FileKind, Metadata, PathFacts, canonicalize, entries_named, metadata, read_bounded, read_dir, read_link,
    read_start, symlink_metadata,
};
#[cfg(feature = "serde")]
pub use portable::Portable;
#[cfg(feature = "serde")]
use record::ask_for_enough;
#[cfg(feature = "serde")]
pub use record::{Answer, Facts, ask, ask_program, derive};
pub use subject::Subject;

/// Answers a question about a subject. Without the feature `serde`, the answer is always the result of `read`.
#[cfg(not(feature = "serde"))]
pub fn ask<'a, T>(_question: &'static str, _subject: impl Into<Subject<'a>>, read: impl FnOnce() -> T) -> T {
    read()
}

#[cfg(not(feature = "serde"))]
pub use self::{ask as ask_program, ask as derive};

/// Like [`ask`], for an answer that can be longer than a recorded one.
#[cfg(not(feature = "serde"))]
fn ask_for_enough<'a, T>(
    _question: &'static str,
    _subject: impl Into<Subject<'a>>,
    _is_enough: impl Fn(&T) -> bool,
    read: impl FnOnce() -> T,
) -> T {
    read()
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

/// Returns whether this file starts like a native program: ELF, or PE on Windows.
#[must_use]
pub fn is_native_program(file: &Path) -> bool {
    const MAGICS: [&[u8]; 2] = [b"\x7fELF", b"MZ"];
    ask("native program", file, || {
        let mut magic = [0; 4];
        let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && MAGICS.iter().any(|start| magic.starts_with(start))
    })
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
pub(crate) fn is_like_tmp(dir: &Path) -> bool {
    ask("directory like /tmp", dir, || cudnn_os::files::is_like_tmp(dir))
}

/// Returns whether only root, the owner of the directory and those who can write to it can have written a file in it.
pub(crate) fn is_trusted_beside(file: &Path, dir: &Path) -> bool {
    ask("file of a trusted user", file, || cudnn_os::files::resolve_beside(file, dir).is_some())
}

/// Returns whether the program runs with the rights of a different user or group (setuid or setgid).
pub(crate) fn is_setid(program: &Path) -> bool {
    ask("setuid program", program, || cudnn_os::files::is_setid(program))
}

/// Returns the value of an environment variable of this process.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    ask("variable", name, || std::env::var_os(name))
}

/// Returns the names of this process's environment variables that start with this prefix.
#[must_use]
pub fn variable_names(prefix: &str) -> Vec<String> {
    ask("names of variables", prefix, || {
        let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    })
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
    use std::io;
    use std::path::Path;

    use super::*;

    #[test]
    fn recorded_answers_are_given_again_without_a_look_at_the_system() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-facts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "text").unwrap();
        let look = || {
            let names: Vec<_> = read_dir(&dir).unwrap().into_iter().map(|entry| entry.path()).collect();
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
        assert!(Facts::active().is_none());
    }

    #[test]
    fn what_facts_do_not_mention_does_not_exist() {
        let nothing = Facts::from_value(serde_json::json!({})).unwrap();
        nothing.within(|| {
            assert!(!Path::new("/").leads_to_dir() && read_dir("/").is_err() && variable("PATH").is_none());
        });
    }

    #[test]
    fn variable_names_are_recorded_by_prefix() {
        let recorder = Facts::recorder();
        let look = || ["PATH", "CARGO_"].map(variable_names);
        let [path, cargo] = recorder.within(look);
        assert!(path.contains(&"PATH".to_owned()) && cargo.contains(&"CARGO_MANIFEST_DIR".to_owned()));
        assert_eq!(Facts::from_value(recorder.to_value()).unwrap().within(look), [path, cargo]);
    }

    #[test]
    fn each_answer_is_found_once_and_changed_answers_once_more() {
        let count = std::cell::Cell::new(0_u32);
        let look = || {
            derive("question", Path::new("/dir/file"), || {
                count.set(count.get() + 1);
                io::Result::Ok(count.get())
            })
            .unwrap()
        };
        let recorder = Facts::recorder();
        assert_eq!(recorder.within(|| [look(), look()]), [1, 1]);
        assert_eq!(recorder.after(Changes::default()).within(look), 1);
        let mut changes = Changes::default();
        recorder.within(|| changes.write(Path::new("/dir/file"), ""));
        assert_eq!(recorder.after(changes).within(|| [look(), look()]), [2, 2]);
        assert_eq!(recorder.to_value()["question"], serde_json::json!({ "/dir/file": { "Ok": 1 } }));
    }

    #[test]
    fn changes_after_changes_keep_the_answers_of_programs() {
        let recorder = Facts::recorder();
        let run = || ask_program("program", "subject", || Some(7_u32));
        assert_eq!(recorder.after(Changes::default()).within(run), None);
        assert_eq!(recorder.within(run), Some(7));
        assert_eq!(recorder.after(Changes::default()).after(Changes::default()).within(run), Some(7));
    }

    #[test]
    fn the_longest_start_of_a_file_is_recorded() {
        let file = std::env::temp_dir().join(format!("cudnn-probe-starts-{}", std::process::id()));
        std::fs::write(&file, "0123456789").unwrap();
        let recorder = Facts::recorder();
        recorder.within(|| {
            assert_eq!(read_start(&file, 2).unwrap(), b"01");
            assert_eq!(read_start(&file, 5).unwrap(), b"01234");
            assert_eq!(read_start(&file, 3).unwrap(), b"012");
            assert!(read_bounded(&file, 8).is_err());
        });
        std::fs::remove_file(&file).unwrap();
        assert_eq!(Facts::from_value(recorder.to_value()).unwrap().within(|| read_start(&file, 5).unwrap()), b"01234");
    }

    #[test]
    fn only_the_outer_of_two_questions_is_recorded() {
        let recorder = Facts::recorder();
        recorder.within(|| ask("outer", "subject", || ask("inner", "subject", || true)));
        assert_eq!(recorder.to_value(), serde_json::json!({ "outer": { "subject": true } }));
    }
}

//! Opens the files and streams for reports of layers, and formats the process name and durations in them.

use std::ffi::{OsStr, OsString};
use std::io::{Error, ErrorKind, Result};
use std::iter::once;
use std::path::{Path, PathBuf, is_separator};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cudnn_layer_api::Host;
use cudnn_os::append_file::{AppendFile, uninterrupted};
use cudnn_os::escape::one_line;
use cudnn_os::files::{create_temporary, is_replaceable};
use cudnn_os::text_file::{TextFile, is_special};
use cudnn_probe::Version;
use once_cell::race::OnceBox;

/// The destination of a layer's text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Appends to this file. The first `%i` in the name is replaced by the process ID.
    File(PathBuf),
}

impl Destination {
    pub(crate) fn parse(value: &OsStr) -> Destination {
        match value.to_str() {
            Some("stdout") => Destination::Stdout,
            Some("stderr") => Destination::Stderr,
            _ => Destination::File(value.into()),
        }
    }

    /// Checks that [`open`] would succeed in a new process, without creating a file.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        let Destination::File(name) = self else { return Ok(()) };
        let checked = match refuse_directory(name) {
            // Opening a pipe here would end the text for its reader.
            Ok(()) if is_special(name) => Ok(()),
            Ok(()) if name.is_file() => TextFile::open(name).map(drop),
            Ok(()) => check_creation(name),
            refused => refused,
        };
        checked.map_err(|error| cannot_write(name, &error))
    }
}

pub(crate) fn open(destination: &Destination) -> std::result::Result<TextFile, String> {
    match destination {
        Destination::Stdout => Ok(TextFile::stdout()),
        Destination::Stderr => Ok(TextFile::stderr()),
        Destination::File(name) => {
            let name = expanded(name, std::process::id());
            TextFile::open(&name).map_err(|error| cannot_write(&name, &error))
        }
    }
}

/// Writes the summary of a layer when the process exits.
pub(crate) fn write_summary(host: Host, destination: &Destination, text: &str) {
    let written = open(destination).and_then(|file| file.write(text.as_bytes()).map_err(|error| error.to_string()));
    if let Err(reason) = written {
        host.error(&format!("cannot write the summary: {reason}"));
    }
}

/// The working directory when a layer started.
static WORKING_DIR: OnceBox<PathBuf> = OnceBox::new();

/// Stores the working directory, so that relative file names stay valid if the program changes it.
pub(crate) fn save_working_dir() {
    if let Ok(dir) = std::env::current_dir() {
        let _ = WORKING_DIR.set(Box::new(dir));
    }
}

/// Returns the name of a file that only this process writes to. A forked child adds the process ID, because the
/// original name belongs to the parent, even if it has exited or closed the descriptor that locks the file.
pub(crate) fn own_name(name: &Path, is_child: bool) -> PathBuf {
    let process = std::process::id();
    let own = expanded(name, process);
    if is_child && !has_placeholder(name) { with_suffix(&own, &process.to_string()) } else { own }
}

/// Replaces the first `%i` with the process ID. The result is absolute if [`save_working_dir`] was called.
fn expanded(name: &Path, process: u32) -> PathBuf {
    let bytes = name.as_os_str().as_encoded_bytes();
    let name = placeholder_position(name).and_then(|at| bytes.split_at_checked(at)).map_or_else(
        || name.to_owned(),
        |(before, after)| joined(&[before, process.to_string().as_bytes(), after.get(2..).unwrap_or_default()]),
    );
    WORKING_DIR.get().map_or(name.clone(), |dir| dir.join(name))
}

/// Inserts a suffix before the extension, such as a process ID.
fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let extension = name.extension().map(|extension| [OsStr::new("."), extension].join(OsStr::new("")));
    let mut file_name = name.file_stem().unwrap_or_default().to_owned();
    file_name.push(format!(".{suffix}"));
    file_name.push(extension.unwrap_or_default());
    name.with_file_name(file_name)
}

/// A kind of file that only one process writes to. It may only replace files of the same kind.
pub(crate) struct FileKind {
    pub(crate) name: &'static str,
    pub(crate) start: &'static str,
}

impl FileKind {
    /// Maximum number of attempts to create a file while other processes create and remove it.
    const ATTEMPTS: usize = 8;
    /// Maximum number of files of a process with several copies of the layers, for example after `dlmopen`.
    const COPIES: usize = 16;

    /// Returns whether a file that starts with these bytes may be replaced, because it is empty or of this kind.
    pub(crate) fn may_replace(&self, start: &[u8]) -> bool {
        start.is_empty() || start.starts_with(self.start.as_bytes())
    }

    /// Creates a file with this first record, or replaces an older file. If another process is writing to it, inserts
    /// the process ID into the name, and a number if this process is writing to that file too.
    pub(crate) fn create(&self, name: &Path, first: &[u8]) -> Result<AppendFile> {
        let process = std::process::id();
        let others = (2..Self::COPIES).map(|copy| format!("{process}-{copy}"));
        let others = once(process.to_string()).chain(others).map(|suffix| with_suffix(name, &suffix));
        for name in once(name.to_owned()).chain(others) {
            if let Some(file) = self.create_unless_used(&std::path::absolute(name)?)? {
                let written = uninterrupted(|| file.append(first, &AtomicBool::new(false)));
                if let Err(error) = written {
                    let _ = std::fs::remove_file(file.path());
                    file.close();
                    return Err(error);
                }
                return Ok(file);
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Returns `None` if a process is writing to the file.
    fn create_unless_used(&self, path: &Path) -> Result<Option<AppendFile>> {
        for _ in 0..Self::ATTEMPTS {
            match AppendFile::create_new(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let removed = AppendFile::remove(path, |start| self.may_replace(start));
                    let removed = removed.map_err(|error| match error.kind() {
                        ErrorKind::AlreadyExists => {
                            Error::new(error.kind(), format!("the file exists and is not a {}", self.name))
                        }
                        _ => error,
                    });
                    if !removed? {
                        return Ok(None);
                    }
                }
                Ok(None) => {}
                created => return created,
            }
        }
        Ok(None)
    }

    /// Checks that [`FileKind::create`] would succeed in a new process, without creating or replacing a file.
    pub(crate) fn check(&self, name: &Path) -> std::result::Result<(), String> {
        let cannot_write = |error| cannot_write(name, &error);
        refuse_directory(name).map_err(cannot_write)?;
        // With `%i` in the name, every process has a file of its own.
        if !has_placeholder(name) && !is_replaceable(name, |start| self.may_replace(start)).map_err(cannot_write)? {
            return Err(format!("{} exists and is not a {}", name.display(), self.name));
        }
        check_creation(name).map_err(cannot_write)
    }
}

fn cannot_write(name: &Path, error: &Error) -> String {
    format!("cannot write {}: {error}", name.display())
}

fn refuse_directory(name: &Path) -> Result<()> {
    let last = name.as_os_str().as_encoded_bytes().last();
    let is_named_as_one = last.is_some_and(|last| is_separator(char::from(*last)));
    if is_named_as_one || name.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(()) }
}

/// Checks that files can be created in the directory of this name, by creating a temporary one.
fn check_creation(name: &Path) -> Result<()> {
    // With `%i` in the directory, every process may use a separate one.
    let Some(dir) = name.parent().filter(|dir| !has_placeholder(dir)) else { return Ok(()) };
    let probe = dir.join(format!(".cudnn-layers-check-{}", std::process::id()));
    match create_temporary(&probe) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn has_placeholder(name: &Path) -> bool {
    placeholder_position(name).is_some()
}

fn placeholder_position(name: &Path) -> Option<usize> {
    name.as_os_str().as_encoded_bytes().windows(2).position(|pair| pair == b"%i")
}

fn joined(pieces: &[&[u8]]) -> PathBuf {
    // SAFETY: the pieces are digits and parts of an `OsStr` that was cut next to ASCII characters.
    PathBuf::from(unsafe { OsString::from_encoded_bytes_unchecked(pieces.concat()) })
}

/// Maximum length of a line. Writes of up to this size to a pipe stay intact if there are several writers.
const LINE_LIMIT: usize = 4096;

/// Escapes control characters and shortens a line, with room for a newline.
pub(crate) fn bounded_line(mut line: String) -> String {
    if line.contains(char::is_control) {
        line = one_line(&line);
    }
    if line.len() >= LINE_LIMIT {
        let end = (0..LINE_LIMIT - 4).rev().find(|end| line.is_char_boundary(*end)).unwrap_or_default();
        line.truncate(end);
        line.push_str("...");
    }
    line
}

/// Returns the name of the program and the version of cuDNN, for display.
pub(crate) fn process_name(host: Host) -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
    let version = Version::from_number(host.cudnn_version() as usize);
    let program = one_line(&program.to_string_lossy());
    format!("{program} (cuDNN {version})")
}

/// Formats a duration with three significant digits and a unit. Uses only integers, because a program may trap inexact
/// results of floating-point operations.
pub(crate) struct Shown(pub(crate) Duration);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanoseconds = self.0.as_nanos();
        let (unit, name) = match nanoseconds {
            0..1_000 => return write!(f, "{nanoseconds} ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let thousandths = nanoseconds * 1_000 / unit;
        let decimals = match thousandths {
            0..9_995 => 2,
            9_995..99_950 => 1,
            _ => 0,
        };
        f.write_str(&rounded(nanoseconds, unit, decimals))?;
        write!(f, " {name}")
    }
}

/// Formats a quotient with this number of decimals, without floating-point operations.
pub(crate) fn rounded(number: u128, divisor: u128, decimals: u32) -> String {
    let scale = 10_u128.pow(decimals);
    let quotient = (number * scale + divisor / 2) / divisor;
    match decimals {
        0 => quotient.to_string(),
        _ => format!("{}.{:0width$}", quotient / scale, quotient % scale, width = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_number_of_the_process() {
        assert_eq!(expanded(Path::new("/a%i/b%i.json"), 7), Path::new("/a7/b%i.json"));
        assert_eq!(expanded(Path::new("a.json"), 7), Path::new("a.json"));
    }

    #[test]
    fn a_suffix_precedes_the_extension() {
        assert_eq!(with_suffix(Path::new("/x.y/a.json"), "7"), Path::new("/x.y/a.7.json"));
        assert_eq!(with_suffix(Path::new("/x.y/a"), "7"), Path::new("/x.y/a.7"));
    }

    #[test]
    fn copies_in_a_process_write_different_files() {
        let (dir, kind) = (tempfile::tempdir().unwrap(), FileKind { name: "list", start: "[" });
        let files: Vec<AppendFile> =
            (0..FileKind::COPIES).map(|_| kind.create(&dir.path().join("a.json"), b"[ list").unwrap()).collect();
        let process = std::process::id();
        let names = [
            "a.json".to_owned(),
            format!("a.{process}.json"),
            format!("a.{process}-2.json"),
            format!("a.{process}-3.json"),
        ];
        assert!(files.iter().take(4).map(AppendFile::path).eq(names.map(|name| dir.path().join(name))));
        let error = kind.create(&dir.path().join("a.json"), b"[ list").err().map(|error| error.kind());
        assert_eq!((files.len(), error), (16, Some(ErrorKind::AlreadyExists)));
        files.iter().for_each(AppendFile::close);
    }

    #[test]
    fn destinations_are_checked_without_changing_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("old"), "[ old").unwrap();
        let kind = FileKind { name: "list", start: "[" };
        for (name, expected) in [
            ("new", ""),
            ("old", ""),
            ("%i/new", ""),
            ("nowhere/new", "cannot write"),
            ("old/new", "cannot write"),
            (".", "is a directory"),
            ("%i/", "is a directory"),
        ] {
            for checked in [Destination::File(at(name)).check(), kind.check(&at(name))] {
                let reason = checked.err().unwrap_or_default();
                assert!(reason.contains(expected) && reason.is_empty() == expected.is_empty(), "{name}: {reason}");
            }
        }
        std::fs::write(at("old"), "text").unwrap();
        assert_eq!(Destination::File(at("old")).check(), Ok(()));
        assert!(kind.check(&at("old")).unwrap_err().ends_with("exists and is not a list"));
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!((names, std::fs::read(at("old")).unwrap()), (vec!["old".into()], b"text".into()));
    }

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let shown = |nanoseconds| Shown(Duration::from_nanos(nanoseconds)).to_string();
        let durations = [0, 999, 1_000, 12_345, 123_456, 9_999_000, 4_321_000_000, 1_234_000_000_000];
        let expected = ["0 ns", "999 ns", "1.00 us", "12.3 us", "123 us", "10.0 ms", "4.32 s", "1234 s"];
        assert_eq!(durations.map(shown), expected);
    }
}

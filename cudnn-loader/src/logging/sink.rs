//! Writes log entries to the destination that the environment configures: stdout, stderr or a file.
//!
//! The variables are read once, in the same way as by cuDNN (tested with 9.0.0, 9.19.0 and 9.28.0).

use std::ffi::{CString, OsStr, OsString, c_int, c_uint};
use std::path::{Path, PathBuf, is_separator};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use cudnn_os::environment::is_secure_execution;
use cudnn_os::text_file::{self, TextFile};
use cudnn_os::{at_load, clock};
use once_cell::race::OnceBox;

use super::entry::{ERROR_BIT, INFO_BIT, WARNING_BIT};
use crate::sync::primitives::lock;
use crate::thread::fork::ForkGuard;

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// Discards the log.
    None,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// This file, which is truncated first. As in `CUDNN_LOGDEST_DBG`, the first `%i` in the name is replaced by the
    /// process id, and `strftime` conversions (`%Y`, `%m`, `%d`, `%H`, `%M`, `%S` and so on) by the local time.
    File(PathBuf),
}

/// The log as the environment configures it.
pub(super) struct EnvConfig {
    /// The severities, as a mask for `cudnnSetCallback`.
    pub(super) mask: c_uint,
    pub(super) sink: Sink,
    /// When the variables were read, and by which process.
    pub(super) start: Instant,
    process: u32,
}

/// Returns the configuration, read at first use. If two threads read it, the first to finish wins.
pub(super) fn env_config() -> &'static EnvConfig {
    static CONFIG: OnceBox<EnvConfig> = OnceBox::new();
    CONFIG.get_or_init(|| {
        // In secure-execution mode, the environment must not control where this process writes.
        let is_trusted = !is_secure_execution();
        let variable = |name: &str| std::env::var_os(name).filter(|_| is_trusted);
        let sink = Sink::since(loaded_at(), loader_destination(destination(variable("CUDNN_LOGDEST_DBG"))));
        Box::new(EnvConfig { mask: mask(&variable), sink, start: Instant::now(), process: std::process::id() })
    })
}

/// Returns the loader's own destination. The loader needs a separate file, because cuDNN truncates the log file when it
/// is loaded and writes at offsets that it tracks.
fn loader_destination(destination: Destination) -> Destination {
    match destination {
        // For a directory, cuDNN writes no log either.
        Destination::File(name) if is_directory(&name) => Destination::None,
        // A device or pipe such as /dev/stderr is never truncated, and both can write there.
        Destination::File(name) if is_special(&name) => Destination::File(name),
        Destination::File(name) => {
            let mut name = name.into_os_string();
            name.push(".loader");
            Destination::File(name.into())
        }
        other => other,
    }
}

fn is_directory(name: &Path) -> bool {
    let last = name.as_os_str().as_encoded_bytes().last();
    name.file_name().is_none() || last.is_some_and(|last| is_separator((*last).into()))
}

fn is_special(name: &Path) -> bool {
    expand(name).is_some_and(|name| text_file::is_special(&name))
}

fn mask(variable: &dyn Fn(&str) -> Option<OsString>) -> c_uint {
    if let Some(level) = variable("CUDNN_LOGLEVEL_DBG") {
        return match number(&level) {
            ..=0 => 0,
            1 => ERROR_BIT,
            2 => ERROR_BIT | WARNING_BIT,
            3.. => ERROR_BIT | WARNING_BIT | INFO_BIT,
        };
    }
    // The three older variables, for a single severity each.
    let older = [("CUDNN_LOGERR_DBG", ERROR_BIT), ("CUDNN_LOGWARN_DBG", WARNING_BIT), ("CUDNN_LOGINFO_DBG", INFO_BIT)];
    let is_on = |name: &str| variable(name).is_some_and(|value| number(&value) != 0);
    older.iter().filter(|(name, _)| is_on(name)).fold(0, |mask, (_, bit)| mask | bit)
}

/// Parses a number as cuDNN does: in any base that C supports, ignoring trailing text, truncated to an `int`.
fn number(text: &OsStr) -> c_int {
    let Ok(text) = CString::new(text.as_encoded_bytes()) else { return 0 };
    // SAFETY: the text is NUL-terminated, and the end pointer may be null.
    unsafe { libc::strtol(text.as_ptr(), std::ptr::null_mut(), 0) as c_int }
}

fn destination(value: Option<OsString>) -> Destination {
    match value.as_ref().map(|value| value.as_encoded_bytes().trim_ascii()) {
        None | Some(b"stderr") => Destination::Stderr,
        Some(b"stdout") => Destination::Stdout,
        Some(b"NULL" | b"") => Destination::None,
        // SAFETY: trimming removed only ASCII characters from system-provided text.
        Some(name) => Destination::File(unsafe { OsStr::from_encoded_bytes_unchecked(name) }.into()),
    }
}

/// A destination and the open file.
pub(super) struct Sink {
    destination: Destination,
    /// The only process that truncates the file, and the time (in nanoseconds) before which the content may be
    /// discarded. This protects the entries of other processes after a fork.
    emptied: (u32, i64),
    file: Mutex<LogFile>,
    /// The process that has stopped waiting for the lock: a child that was forked while another thread of the parent
    /// held it.
    locked_out: AtomicU32,
}

#[derive(Default)]
enum LogFile {
    #[default]
    Unopened,
    Open(TextFile),
    /// Opening failed and is not retried.
    Closed,
}

impl Sink {
    pub(super) fn new(destination: Destination) -> Self {
        Sink::since(i64::MAX, destination)
    }

    fn since(time: i64, destination: Destination) -> Self {
        let emptied = (std::process::id(), time);
        Sink { destination, emptied, file: Mutex::default(), locked_out: AtomicU32::new(0) }
    }

    /// Writes an entry, and returns whether it was written. If writing fails, the entry is lost, as with cuDNN.
    pub(super) fn write(&self, text: &[u8]) -> bool {
        match &self.destination {
            Destination::None => false,
            Destination::Stdout => TextFile::stdout().write(text).is_ok(),
            Destination::Stderr => TextFile::stderr().write(text).is_ok(),
            Destination::File(name) => {
                let process = std::process::id();
                if self.locked_out.load(Ordering::Relaxed) == process {
                    return false;
                }
                let _guard = ForkGuard::new();
                if let Some(mut file) = lock(&self.file) {
                    return file.write(name, self.emptied, text);
                }
                // A child waits only once. In the parent, the other thread is merely slow.
                if process != env_config().process {
                    self.locked_out.store(process, Ordering::Relaxed);
                }
                false
            }
        }
    }
}

impl LogFile {
    fn write(&mut self, name: &Path, (process, since): (u32, i64), text: &[u8]) -> bool {
        if let LogFile::Unopened = self {
            let is_emptied = |modified| modified < since && process == std::process::id();
            let open = expand(name).and_then(|name| TextFile::open_emptied(&name, is_emptied).ok());
            *self = open.map_or(LogFile::Closed, LogFile::Open);
        }
        matches!(self, LogFile::Open(file) if file.write(text).is_ok())
    }
}

/// Returns the time when this code was loaded, before any fork that the processes have in common.
fn loaded_at() -> i64 {
    LOADED_AT.load(Ordering::Relaxed)
}

static LOADED_AT: AtomicI64 = AtomicI64::new(i64::MAX);

at_load!(NOTE_LOADED_AT: note_loaded_at);

extern "C" fn note_loaded_at() {
    LOADED_AT.store(clock::file_time(), Ordering::Relaxed);
}

/// Expands the process id and the local time in a file name.
fn expand(name: &Path) -> Option<PathBuf> {
    let mut template = name.as_os_str().as_encoded_bytes().to_vec();
    if let Some(index) = template.windows(2).position(|two| two == b"%i") {
        let rest = template.split_off(index);
        template.extend_from_slice(std::process::id().to_string().as_bytes());
        template.extend_from_slice(rest.get(2..).unwrap_or_default());
    }
    let has_time = template.contains(&b'%');
    // SAFETY: digits replaced two ASCII characters in system-provided text.
    let template = unsafe { OsString::from_encoded_bytes_unchecked(template) };
    if !has_time {
        return Some(template.into());
    }
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    clock::local_time(&template, seconds).map(PathBuf::from)
}

/// Formats the local time as `strftime` does. Returns the seconds since 1970 in a forked child, because glibc's time
/// zone lock may be held by a thread that does not exist there.
pub(super) fn local_time(format: &str, seconds: u64) -> OsString {
    if env_config().process == std::process::id() {
        clock::local_time(OsStr::new(format), seconds).unwrap_or_default()
    } else {
        seconds.to_string().into()
    }
}

/// Reads the log's variables, if they have not been read yet.
pub(crate) fn read_variables() {
    env_config();
}

/// Returns whether the environment enables a log. cuDNN writes that log only while no callback is set.
pub(crate) fn is_enabled_by_environment() -> bool {
    env_config().mask != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_clipped_and_each_older_variable_sets_one_severity() {
        let of = |set: &'static [(&str, &str)]| {
            mask(&move |name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| OsString::from(value)))
        };
        for (level, expected) in [
            ("", 0),
            ("0", 0),
            ("1", 2),
            ("2", 6),
            ("3", 14),
            ("4", 14),
            ("-1", 0),
            ("abc", 0),
            ("2x", 6),
            (" 3", 14),
            // As an `int`: -1, 0, and 1.
            ("99999999999999999999", 0),
            ("4294967296", 0),
            ("4294967297", 2),
            ("0x3", 14),
            ("010", 14),
        ] {
            assert_eq!(
                mask(&|name| (name == "CUDNN_LOGLEVEL_DBG").then(|| level.into())),
                expected,
                "CUDNN_LOGLEVEL_DBG={level}"
            );
        }
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[("CUDNN_LOGINFO_DBG", "1")]), 8);
        assert_eq!(of(&[("CUDNN_LOGWARN_DBG", "1"), ("CUDNN_LOGERR_DBG", "2")]), 6);
        assert_eq!(of(&[("CUDNN_LOGERR_DBG", "1"), ("CUDNN_LOGLEVEL_DBG", "0")]), 0);
    }

    #[test]
    fn names_get_the_process_id_once_and_the_conversions_of_strftime() {
        assert_eq!(expand(Path::new("100%%")), Some("100%".into()));
        assert_eq!(expand(Path::new("plain")), Some("plain".into()));
        let process = std::process::id();
        assert_eq!(expand(Path::new("%i_%%i")), Some(format!("{process}_%i").into()));
        assert!(expand(Path::new("%Y")).is_some_and(|year| year.as_os_str().len() == 4));
    }
}

//! The destination of log entries without a callback: none, stdout, stderr or a file, as the environment configures it.
//! The variables are read once, the way cuDNN reads them (tried on 9.0.0, 9.19.0 and 9.28.0). Knows nothing of what an
//! entry contains.

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_uint};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

use once_cell::race::OnceBox;

use super::entry::{ERROR_BIT, INFO_BIT, WARNING_BIT};
use crate::dl::is_secure_execution;
use crate::sync::primitives::lock;
use crate::thread::fork::NotBesideFork;

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// Nowhere.
    None,
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
    /// This file, which is emptied first. As in `CUDNN_LOGDEST_DBG`, the first `%i` in the name becomes the process id,
    /// and `strftime`'s conversions (`%Y`, `%m`, `%d`, `%H`, `%M`, `%S` and so on) become the local time.
    File(PathBuf),
}

/// The log as the environment configures it.
pub(super) struct EnvConfig {
    /// The severities, as `cudnnSetCallback` takes them.
    pub(super) mask: c_uint,
    pub(super) sink: Sink,
    /// When the variables were read, and in which process.
    pub(super) start: Instant,
    process: u32,
}

/// The configuration at the first use. Two threads may both read it; the first to finish wins.
pub(super) fn env_config() -> &'static EnvConfig {
    static CONFIG: OnceBox<EnvConfig> = OnceBox::new();
    CONFIG.get_or_init(|| {
        // In secure-execution mode, the environment must not decide where this process writes.
        let is_trusted = !is_secure_execution();
        let variable = |name: &str| std::env::var_os(name).filter(|_| is_trusted);
        let sink = Sink::since(loaded_at(), beside_cudnns(destination(variable("CUDNN_LOGDEST_DBG"))));
        Box::new(EnvConfig { mask: mask(&variable), sink, start: Instant::now(), process: std::process::id() })
    })
}

/// cuDNN empties its file when it is loaded, and writes at offsets that it counts. So the loader writes another file.
fn beside_cudnns(destination: Destination) -> Destination {
    match destination {
        // A directory: cuDNN writes nothing either.
        Destination::File(name) if is_directory(&name) => Destination::None,
        // A device or a pipe, such as /dev/stderr: cuDNN does not empty it, so both write there.
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
    name.file_name().is_none() || name.as_os_str().as_bytes().ends_with(b"/")
}

fn is_special(name: &Path) -> bool {
    expand(name).is_some_and(|name| match std::fs::metadata(&name) {
        Ok(metadata) => !metadata.is_file(),
        // /dev/stderr is a link that leads nowhere in a program that has closed it.
        Err(_) => name.starts_with("/dev") && name.is_symlink(),
    })
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
    // The three older variables, each for one severity.
    let older = [("CUDNN_LOGERR_DBG", ERROR_BIT), ("CUDNN_LOGWARN_DBG", WARNING_BIT), ("CUDNN_LOGINFO_DBG", INFO_BIT)];
    let is_on = |name: &str| variable(name).is_some_and(|value| number(&value) != 0);
    older.iter().filter(|(name, _)| is_on(name)).fold(0, |mask, (_, bit)| mask | bit)
}

/// As cuDNN reads a number: in any base that C knows, ignoring what follows it, and truncated to an `int`.
fn number(text: &OsStr) -> c_int {
    let Ok(text) = CString::new(text.as_bytes()) else { return 0 };
    // SAFETY: the text ends in NUL, and a null end pointer is allowed.
    unsafe { libc::strtol(text.as_ptr(), std::ptr::null_mut(), 0) as c_int }
}

fn destination(value: Option<OsString>) -> Destination {
    match value.as_ref().map(|value| value.as_bytes().trim_ascii()) {
        None | Some(b"stderr") => Destination::Stderr,
        Some(b"stdout") => Destination::Stdout,
        Some(b"NULL" | b"") => Destination::None,
        Some(name) => Destination::File(OsStr::from_bytes(name).into()),
    }
}

/// A destination with its open file.
pub(super) struct Sink {
    destination: Destination,
    /// Only this process empties the file, and only what was written before this time, in nanoseconds: no process of
    /// several that were forked empties what another has written.
    emptied: (u32, i64),
    file: Mutex<LogFile>,
    /// The process that gave up waiting for the lock: a child, forked while another thread of its parent had it.
    locked_out: AtomicU32,
}

#[derive(Default)]
enum LogFile {
    #[default]
    Unopened,
    /// With device and inode: a program that closes all descriptors may later have another file under this number.
    Open(File, FileId),
    /// Nothing can be written, and the sink does not try again.
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

    /// Writes an entry. If writing fails, the entry is lost, as with cuDNN.
    pub(super) fn write(&self, text: &[u8]) {
        match &self.destination {
            Destination::None => {}
            Destination::Stdout => write_to_descriptor(libc::STDOUT_FILENO, text),
            Destination::Stderr => write_to_descriptor(libc::STDERR_FILENO, text),
            Destination::File(name) => {
                let process = std::process::id();
                if self.locked_out.load(Ordering::Relaxed) == process {
                    return;
                }
                let _guard = NotBesideFork::new();
                match lock(&self.file) {
                    Some(mut file) => file.write(name, self.emptied, text),
                    // A child waits once. In the parent, the other thread is only slow.
                    None if process != env_config().process => self.locked_out.store(process, Ordering::Relaxed),
                    None => {}
                }
            }
        }
    }
}

impl LogFile {
    fn write(&mut self, name: &Path, emptied: (u32, i64), text: &[u8]) {
        if let LogFile::Unopened = self {
            *self = open(name, emptied).unwrap_or(LogFile::Closed);
        }
        self.check();
        if let LogFile::Open(file, _) = self {
            write_without_sigpipe(file, text);
        }
    }

    /// Abandons the descriptor if it now belongs to another file: neither writes to it nor closes it.
    fn check(&mut self) {
        if let LogFile::Open(file, id) = self
            && file.metadata().ok().as_ref().map(file_id) != Some(*id)
            && let LogFile::Open(file, _) = std::mem::replace(self, LogFile::Closed)
        {
            std::mem::forget(file);
        }
    }
}

/// Writes to one of the program's descriptors.
fn write_to_descriptor(descriptor: RawFd, text: &[u8]) {
    // SAFETY: it is written to and not closed; if the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    write_without_sigpipe(&mut file, text);
}

/// Writes, and discards the SIGPIPE if the reader has closed the pipe: it must not end the program.
fn write_without_sigpipe(file: &mut File, text: &[u8]) {
    // SAFETY: sets of signals, for which zero is a value.
    let (mut pipe, mut previous, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
        unsafe { std::mem::zeroed() };
    // SAFETY: all three exist; SIGPIPE is a signal.
    let was_pending = unsafe {
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut previous);
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
    };
    let is_broken = file.write_all(text).is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
    // SAFETY: a timeout of zero; the sets exist.
    unsafe {
        let now: libc::timespec = std::mem::zeroed();
        if is_broken && !was_pending {
            libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const previous, std::ptr::null_mut());
    }
}

/// Opens the file, and empties it if that is for this process to do. A pipe without a reader fails, because the sink does not wait.
fn open(name: &Path, (process, since): (u32, i64)) -> Option<LogFile> {
    let name = expand(name)?;
    let file = File::options().create(true).write(true).mode(0o666).custom_flags(libc::O_NONBLOCK).open(name).ok()?;
    let metadata = file.metadata().ok()?;
    // None of the first three numbers: they belong to others even if they are free now.
    let file = duplicate(file.as_raw_fd())?;
    if metadata.is_file() {
        let modified = metadata.mtime().saturating_mul(SECOND).saturating_add(metadata.mtime_nsec());
        if modified < since && process == std::process::id() {
            file.set_len(0).ok()?;
        }
        // Blocking and appending, so that processes that share the file write complete entries.
        fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND)?;
    }
    Some(LogFile::Open(file, file_id(&metadata)))
}

const SECOND: i64 = 1_000_000_000;

/// The time of the clock that the kernel takes for the times of files, in nanoseconds.
fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer has room.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    time.tv_sec * SECOND + time.tv_nsec
}

/// When this code was loaded, before any fork that its processes have in common.
fn loaded_at() -> i64 {
    LOADED_AT.load(Ordering::Relaxed)
}

static LOADED_AT: AtomicI64 = AtomicI64::new(i64::MAX);

/// ld.so calls this when it loads the program or library that contains this code.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_LOADED_AT: extern "C" fn() = note_loaded_at;

extern "C" fn note_loaded_at() {
    LOADED_AT.store(now(), Ordering::Relaxed);
}

/// The file name with the process id and the local time.
fn expand(name: &Path) -> Option<PathBuf> {
    let mut template = name.as_os_str().as_bytes().to_vec();
    if let Some(index) = template.windows(2).position(|two| two == b"%i") {
        let rest = template.split_off(index);
        template.extend_from_slice(std::process::id().to_string().as_bytes());
        template.extend_from_slice(rest.get(2..).unwrap_or_default());
    }
    if !template.contains(&b'%') {
        return Some(OsString::from_vec(template).into());
    }
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let expanded = strftime(&CString::new(template).ok()?, seconds)?;
    Some(OsString::from_vec(expanded).into())
}

/// The local time in a format of `strftime`. In a child of `fork`, the seconds since 1970, because a thread that the
/// child does not have may have taken glibc's lock for the time zone.
pub(super) fn local_time(format: &CStr, seconds: u64) -> Vec<u8> {
    if env_config().process == std::process::id() {
        strftime(format, seconds).unwrap_or_default()
    } else {
        seconds.to_string().into_bytes()
    }
}

fn strftime(format: &CStr, seconds: u64) -> Option<Vec<u8>> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    // SAFETY: a structure of numbers and a pointer, for which zero is a value.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both live as long as the call.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut time) }.is_null() {
        return None;
    }
    let mut text = vec![0_u8; 4096];
    // SAFETY: the buffer has the length that is passed, the format ends in NUL, and the time is valid.
    let length = unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const time) };
    text.truncate(length);
    Some(text).filter(|text| !text.is_empty())
}

/// Device and inode.
type FileId = (u64, u64);

fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

fn fcntl(descriptor: RawFd, command: c_int, argument: c_int) -> Option<c_int> {
    // SAFETY: the commands take a number, and the kernel refuses a descriptor that is closed.
    let result = unsafe { libc::fcntl(descriptor, command, argument) };
    (result >= 0).then_some(result)
}

/// Another descriptor for the same open file, above the first three, that no child program inherits.
fn duplicate(descriptor: RawFd) -> Option<File> {
    let descriptor = fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3)?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
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

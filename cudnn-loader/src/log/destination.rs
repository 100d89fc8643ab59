//! Where cuDNN's log goes when no callback takes it: nowhere, to stdout, to stderr or into a file, as the environment says,
//! read once, in the ways that cuDNN reads it (tried on 9.0.0, 9.19.0 and 9.28.0). Knows nothing of what an entry says.
//!
//! cuDNN opens its file while its graph library is loaded, empties it, and writes at places that it counts itself. So what this
//! crate has written there before is written once more behind cuDNN's back, and cuDNN's own descriptor is made to append:
//! from then on both write into one file, and neither over the other.

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_uint};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{ERRORS, INFOS, WARNINGS};
use crate::elected::RaceOnce;
use crate::linker;
use crate::sync::lock;

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    None,
    /// To the standard output.
    Stdout,
    /// To the standard error.
    Stderr,
    /// Into this file, which is emptied first. As in `CUDNN_LOGDEST_DBG`, the first `%i` in the name stands for the process,
    /// and what `strftime` knows (`%Y`, `%m`, `%d`, `%H`, `%M`, `%S` and so on) for the local time.
    File(PathBuf),
}

/// What the environment says.
pub(super) struct EnvConfig {
    /// The severities, as `cudnnSetCallback` takes them.
    pub(super) mask: c_uint,
    pub(super) log: Log,
    /// When they were read, and in which process.
    pub(super) start: Instant,
    process: u32,
}

/// The environment's log, as the first use finds it.
pub(super) fn env_config() -> &'static EnvConfig {
    static VARIABLES: RaceOnce<EnvConfig> = RaceOnce::new();
    VARIABLES.get_or_init(|| {
        // Nobody else says to a privileged program what to write and where.
        let is_believed = !linker::is_secure_execution();
        let variable = |name: &str| std::env::var_os(name).filter(|_| is_believed);
        let log = Log::new(destination(variable("CUDNN_LOGDEST_DBG")));
        EnvConfig { mask: mask(&variable), log, start: Instant::now(), process: std::process::id() }
    })
}

fn mask(variable: &dyn Fn(&str) -> Option<OsString>) -> c_uint {
    if let Some(level) = variable("CUDNN_LOGLEVEL_DBG") {
        return match number(&level) {
            ..=0 => 0,
            1 => ERRORS,
            2 => ERRORS | WARNINGS,
            3.. => ERRORS | WARNINGS | INFOS,
        };
    }
    // The older three, each for itself.
    let mut mask = 0;
    for (name, bit) in [("CUDNN_LOGERR_DBG", ERRORS), ("CUDNN_LOGWARN_DBG", WARNINGS), ("CUDNN_LOGINFO_DBG", INFOS)] {
        if variable(name).is_some_and(|value| number(&value) != 0) {
            mask |= bit;
        }
    }
    mask
}

/// As cuDNN reads it: in any base of C's, whatever stands behind it, and cut to an `int`.
fn number(text: &OsStr) -> c_int {
    let Ok(text) = CString::new(text.as_bytes()) else { return 0 };
    // SAFETY: the text ends in NUL, and where the digits end is not asked for.
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

/// A destination, and what has been written there.
pub(super) struct Log {
    destination: Destination,
    file: Mutex<LogFile>,
    /// A process in which the lock cannot be had: a child, forked while another thread of its parent had it.
    without: AtomicU32,
}

#[derive(Default)]
struct LogFile {
    state: State,
    /// Everything written so far, until cuDNN has its file.
    written: Vec<u8>,
    is_full: bool,
    /// Somebody has loaded cuDNN before: its file is not to be emptied.
    is_cudnns: bool,
}

#[derive(Default)]
enum State {
    #[default]
    Unopened,
    /// With what the kernel calls it: a program that closes whatever is open may have another file under the number.
    Open(File, Identity),
    /// Nothing can be written, and nothing is tried again.
    Closed,
}

/// The most that is kept for cuDNN's file, in bytes. What a search and a few failures have to say is a tenth of it.
const MAX_KEPT: usize = 1 << 16;

/// What there was before cuDNN's graph library was loaded, which opens its file.
pub(crate) struct Before {
    name: Option<PathBuf>,
    /// With what they were: a number may be another file's by then.
    descriptors: Vec<(RawFd, Option<Identity>)>,
}

impl Before {
    /// Nothing is asked where nothing is written.
    pub(super) fn of(variables: &EnvConfig) -> Option<Self> {
        match &variables.log.destination {
            Destination::File(name) if variables.mask != 0 => {
                Some(Before { name: expanded(name), descriptors: descriptors() })
            }
            _ => None,
        }
    }
}

impl Log {
    pub(super) fn new(destination: Destination) -> Self {
        Log { destination, file: Mutex::default(), without: AtomicU32::new(0) }
    }

    /// Writes an entry. What cannot be written is lost, as with cuDNN.
    pub(super) fn write(&self, text: &[u8]) {
        match &self.destination {
            Destination::None => {}
            Destination::Stdout => write_to(libc::STDOUT_FILENO, text),
            Destination::Stderr => write_to(libc::STDERR_FILENO, text),
            Destination::File(name) => {
                let process = std::process::id();
                if self.without.load(Ordering::Relaxed) == process {
                    return;
                }
                match lock(&self.file) {
                    Some(mut log) => log.write(name, text),
                    // In a child it is waited for once; here the other thread is only slow.
                    None if process != env_config().process => self.without.store(process, Ordering::Relaxed),
                    None => {}
                }
            }
        }
    }

    /// cuDNN is loaded: goes on in the file that it has opened, with all that was written before. Without what there was
    /// before, somebody else has loaded it.
    pub(super) fn join(&self, before: Option<&Before>) {
        let Destination::File(name) = &self.destination else { return };
        let Some(mut log) = lock(&self.file) else { return };
        log.is_cudnns = true;
        // It may have been opened in the second before.
        let names = [expanded(name), before.and_then(|before| before.name.clone())];
        let files = names.map(|name| std::fs::metadata(name?).ok().as_ref().map(identity));
        // Given up where it is not ours any more, since its number may be cuDNN's by now.
        log.check();
        let mut found = None;
        for (descriptor, identity) in descriptors() {
            let is_new = match before {
                Some(before) => !before.descriptors.contains(&(descriptor, identity)),
                None => descriptor > libc::STDERR_FILENO,
            };
            // All that there are, since one may have been inherited.
            if is_new && identity.is_some() && files.contains(&identity) {
                found = share(descriptor, identity).or(found);
            }
        }
        if let Some((mut file, identity)) = found {
            write_quietly(&mut file, &std::mem::take(&mut log.written));
            log.is_full = true;
            log.state = State::Open(file, identity);
        }
    }
}

impl LogFile {
    /// Gives the file up where the number has become another's, neither to be written to nor to be closed.
    fn check(&mut self) {
        if let State::Open(file, known) = &self.state
            && identity_of(file.as_raw_fd()) != Some(*known)
            && let State::Open(file, _) = std::mem::replace(&mut self.state, State::Closed)
        {
            std::mem::forget(file);
        }
    }

    fn write(&mut self, name: &Path, text: &[u8]) {
        if let State::Unopened = self.state {
            self.state = open(name, !self.is_cudnns).unwrap_or(State::Closed);
        }
        self.check();
        let State::Open(file, _) = &mut self.state else { return };
        write_quietly(file, text);
        // With a gap, what comes after it is left out too.
        self.is_full |= self.written.len() + text.len() > MAX_KEPT;
        if !self.is_full {
            self.written.extend_from_slice(text);
        }
    }
}

/// To a descriptor of the program's own.
fn write_to(descriptor: RawFd, text: &[u8]) {
    // SAFETY: it is written to and not closed; where the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    write_quietly(&mut file, text);
}

/// A reader that has gone is no reason to end the program.
fn write_quietly(file: &mut File, text: &[u8]) {
    // SAFETY: sets of signals, for which zero is a value.
    let (mut pipe, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
        unsafe { std::mem::zeroed() };
    // SAFETY: all three are there; SIGPIPE is a signal.
    let was_pending = unsafe {
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
    };
    let is_broken = file.write_all(text).is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
    // SAFETY: a time of zero; the sets are there.
    unsafe {
        let now: libc::timespec = std::mem::zeroed();
        if is_broken && !was_pending {
            libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

/// The file of this name. A pipe without a reader is none: nobody waits for one.
fn open(name: &Path, is_to_be_emptied: bool) -> Option<State> {
    let name = expanded(name)?;
    let file = File::options().create(true).write(true).mode(0o666).custom_flags(libc::O_NONBLOCK).open(name).ok()?;
    let metadata = file.metadata().ok()?;
    if metadata.is_file() && is_to_be_emptied {
        file.set_len(0).ok()?;
    }
    // Appending, like all who write into it; and none of the first three numbers, which are others' even when they are free.
    let file = duplicate(file.as_raw_fd())?;
    if metadata.is_file() {
        ask(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND)?;
    }
    Some(State::Open(file, identity(&metadata)))
}

/// The name of now: the process and the local time put in.
fn expanded(name: &Path) -> Option<PathBuf> {
    let mut template = name.as_os_str().as_bytes().to_vec();
    if let Some(place) = template.windows(2).position(|two| two == b"%i") {
        let behind = template.split_off(place);
        template.extend_from_slice(std::process::id().to_string().as_bytes());
        template.extend_from_slice(behind.get(2..).unwrap_or_default());
    }
    if !template.contains(&b'%') {
        return Some(OsString::from_vec(template).into());
    }
    let expanded = strftime(&CString::new(template).ok()?, crate::log::now().as_secs())?;
    Some(OsString::from_vec(expanded).into())
}

/// The local time, as a format of `strftime` has it; in a child of `fork`, the seconds since 1970. There a lock of glibc's that
/// guards the time zone may be held by a thread that is not there.
pub(super) fn local_time(format: &CStr, seconds: u64) -> Vec<u8> {
    match env_config().process == std::process::id() {
        true => strftime(format, seconds).unwrap_or_default(),
        false => seconds.to_string().into_bytes(),
    }
}

fn strftime(format: &CStr, seconds: u64) -> Option<Vec<u8>> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    // SAFETY: a structure of numbers and a pointer, for which zero is a value.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are there for as long as the call lasts.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut time) }.is_null() {
        return None;
    }
    let mut text = vec![0_u8; 4096];
    // SAFETY: there is room for what is said, the format ends in NUL, and the time is a valid one.
    let length = unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const time) };
    text.truncate(length);
    Some(text).filter(|text| !text.is_empty())
}

/// What is open in this process.
#[inline(never)]
fn descriptors() -> Vec<(RawFd, Option<Identity>)> {
    let mut all = Vec::new();
    // Not that of the process, which is empty when its first thread has ended.
    if let Ok(folder) = std::fs::read_dir("/proc/thread-self/fd") {
        for entry in folder.flatten() {
            if let Some(descriptor) = entry.file_name().to_str().and_then(|number| number.parse::<RawFd>().ok()) {
                all.push((descriptor, identity_of(descriptor)));
            }
        }
    }
    all
}

/// What the kernel calls a file.
type Identity = (u64, u64);

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Asked by the number, and without another one: to close one of a file gives up the locks that the process has on it.
fn identity_of(descriptor: RawFd) -> Option<Identity> {
    // SAFETY: it is asked what it is, and not closed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    file.metadata().ok().as_ref().map(identity)
}

fn ask(descriptor: RawFd, what: c_int, value: c_int) -> Option<c_int> {
    // SAFETY: what is asked takes a number, and a descriptor that is closed is refused.
    let answer = unsafe { libc::fcntl(descriptor, what, value) };
    (answer >= 0).then_some(answer)
}

/// Another descriptor of the same open file, none of the first three, that no other program inherits.
fn duplicate(descriptor: RawFd) -> Option<File> {
    let own = ask(descriptor, libc::F_DUPFD_CLOEXEC, 3)?;
    // SAFETY: it was made just now, for this.
    Some(unsafe { OwnedFd::from_raw_fd(own) }.into())
}

/// Another descriptor of the same open file, made to append; none where it was not opened as cuDNN does: for writing alone, and
/// for other programs to inherit.
fn share(descriptor: RawFd, known: Option<Identity>) -> Option<(File, Identity)> {
    let is_inherited = ask(descriptor, libc::F_GETFD, 0)? & libc::FD_CLOEXEC == 0;
    let flags = ask(descriptor, libc::F_GETFL, 0)?;
    if !is_inherited || flags & libc::O_ACCMODE != libc::O_WRONLY {
        return None;
    }
    // From here on it is the same file, whatever becomes of the number.
    let file = duplicate(descriptor)?;
    let metadata = file.metadata().ok()?;
    let identity = Some(identity(&metadata)).filter(|identity| Some(*identity) == known && metadata.is_file())?;
    ask(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_APPEND)?;
    Some((file, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_clipped_and_the_older_variables_stand_for_themselves() {
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
    fn names_have_the_process_once_and_what_strftime_knows() {
        assert_eq!(expanded(Path::new("100%%")), Some("100%".into()));
        assert_eq!(expanded(Path::new("plain")), Some("plain".into()));
        let process = std::process::id();
        assert_eq!(expanded(Path::new("%i_%%i")), Some(format!("{process}_%i").into()));
        assert!(expanded(Path::new("%Y")).is_some_and(|year| year.as_os_str().len() == 4));
    }
}

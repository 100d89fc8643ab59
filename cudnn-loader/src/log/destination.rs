//! Where cuDNN's log goes when no callback takes it: nowhere, to stdout, to stderr or into a file, as the environment says,
//! read once, in the ways that cuDNN reads it (tried on 9.0.0 and 9.28.0). Knows nothing of what an entry says.
//!
//! cuDNN opens its file when its graph library is loaded, empties it, and writes at places that it counts itself. So what this
//! crate has written there before is written once more behind cuDNN's back, and cuDNN's own descriptor is made to append:
//! from then on both write into one file, and neither over the other.

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_uint};
use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use super::{ERRORS, INFOS, WARNINGS};
use crate::elected::Elected;
use crate::linker;
use crate::sync::lock;

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere.
    Nothing,
    /// To the standard output.
    Stdout,
    /// To the standard error.
    Stderr,
    /// Into this file, which is emptied first. As in `CUDNN_LOGDEST_DBG`, the first `%i` in the name stands for the process,
    /// and what `strftime` knows (`%Y`, `%m`, `%d`, `%H`, `%M`, `%S` and so on) for the local time.
    File(PathBuf),
}

/// What the environment says.
pub(super) struct Variables {
    /// The severities, as `cudnnSetCallback` takes them.
    pub(super) mask: c_uint,
    pub(super) log: Log,
    /// When they were read.
    pub(super) start: Instant,
}

/// The environment's log, as the first use finds it.
pub(super) fn variables() -> &'static Variables {
    static VARIABLES: Elected<Variables> = Elected::new();
    VARIABLES.get_or_make(|| {
        // Nobody else says to a privileged program what to write and where.
        let is_believed = !linker::is_privileged();
        let variable = |name: &str| std::env::var_os(name).filter(|_| is_believed);
        let destination = destination(variable("CUDNN_LOGDEST_DBG"));
        Variables { mask: mask(&variable), log: Log::new(destination), start: Instant::now() }
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
    [("CUDNN_LOGERR_DBG", ERRORS), ("CUDNN_LOGWARN_DBG", WARNINGS), ("CUDNN_LOGINFO_DBG", INFOS)]
        .into_iter()
        .filter(|(name, _)| variable(name).is_some_and(|value| number(&value) != 0))
        .fold(0, |mask, (_, bit)| mask | bit)
}

/// As C's `strtol` reads it: what is behind the digits does not matter, and what is too large is the largest.
fn number(text: &OsStr) -> i64 {
    let text = text.as_bytes().trim_ascii_start();
    let (sign, digits) = match text.split_first() {
        Some((b'-', rest)) => (-1, rest),
        Some((b'+', rest)) => (1, rest),
        _ => (1, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0'))) * sign
}

fn destination(value: Option<OsString>) -> Destination {
    match value.as_ref().map(|value| value.as_bytes()) {
        None | Some(b"stderr") => Destination::Stderr,
        Some(b"stdout") => Destination::Stdout,
        Some(b"NULL" | b"") => Destination::Nothing,
        Some(name) => Destination::File(OsStr::from_bytes(name).into()),
    }
}

/// A destination, and what has been written there.
pub(super) struct Log {
    destination: Destination,
    file: Mutex<LogFile>,
}

#[derive(Default)]
struct LogFile {
    file: Option<File>,
    /// The file is cuDNN's own.
    is_cudnns: bool,
    /// Everything written so far, until cuDNN has its file.
    written: Vec<u8>,
}

/// The most that is kept for cuDNN's file, in bytes. What a search and a few failures have to say is a tenth of it.
const MOST_KEPT: usize = 1 << 16;

impl Log {
    pub(super) fn new(destination: Destination) -> Self {
        Log { destination, file: Mutex::default() }
    }

    /// Writes an entry. What cannot be written is lost, as with cuDNN.
    pub(super) fn write(&self, text: &[u8]) {
        match &self.destination {
            Destination::Nothing => {}
            Destination::Stdout => write_to(libc::STDOUT_FILENO, text),
            Destination::Stderr => write_to(libc::STDERR_FILENO, text),
            Destination::File(name) => {
                let Some(mut log) = lock(&self.file) else { return };
                if log.file.is_none() {
                    log.file = cudnns_file(name, None);
                    log.is_cudnns = log.file.is_some();
                    log.file = log.file.take().or_else(|| create(name));
                }
                if !log.is_cudnns && log.written.len() + text.len() <= MOST_KEPT {
                    log.written.extend_from_slice(text);
                }
                let _ = log.file.as_mut().map(|file| file.write_all(text));
            }
        }
    }

    /// cuDNN has opened its file: goes on in there, with all that was written before.
    pub(super) fn join(&self) {
        let Destination::File(name) = &self.destination else { return };
        let Some(mut log) = lock(&self.file).filter(|log| !log.is_cudnns) else { return };
        let own = log.file.as_ref().map(AsRawFd::as_raw_fd);
        if let Some(mut file) = cudnns_file(name, own) {
            let written = std::mem::take(&mut log.written);
            let _ = file.write_all(&written);
            log.file = Some(file);
            log.is_cudnns = true;
        }
    }
}

fn write_to(descriptor: RawFd, text: &[u8]) {
    // SAFETY: it is written to and not closed; where the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let _ = file.write_all(text);
}

fn create(name: &Path) -> Option<File> {
    let name = expanded(name)?;
    File::options().create(true).write(true).truncate(true).mode(0o666).open(&name).ok()?;
    // Appending, like all who write into it.
    File::options().append(true).open(&name).ok()
}

/// The name of now: the process and the local time put in.
fn expanded(name: &Path) -> Option<PathBuf> {
    let mut template = name.as_os_str().as_bytes().to_vec();
    if let Some(place) = template.windows(2).position(|two| two == b"%i") {
        let behind = template.split_off(place);
        template.extend_from_slice(std::process::id().to_string().as_bytes());
        template.extend_from_slice(behind.get(2..).unwrap_or_default());
    }
    let expanded = local_time(&CString::new(template).ok()?, crate::log::now().as_secs())?;
    Some(OsString::from_vec(expanded).into())
}

/// The local time, as a format of `strftime` has it; none where it is too long.
pub(super) fn local_time(format: &CStr, seconds: u64) -> Option<Vec<u8>> {
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

/// The file of this name that somebody in this process has open for writing, other than by this descriptor: cuDNN. It appends
/// from now on.
fn cudnns_file(name: &Path, own: Option<RawFd>) -> Option<File> {
    let folder = Path::new(".").join(expanded(name)?).parent()?.canonicalize().ok()?;
    let pattern = name.file_name()?.as_bytes();
    let is_it = |file: &Path| {
        file.parent() == Some(&*folder) && file.file_name().is_some_and(|name| fits(pattern, name.as_bytes()))
    };
    let mut found = None;
    for entry in std::fs::read_dir("/proc/self/fd").ok()?.flatten() {
        let descriptor = entry.file_name().to_str().and_then(|number| number.parse::<RawFd>().ok());
        let Some(descriptor) = descriptor.filter(|descriptor| Some(*descriptor) != own) else { continue };
        if std::fs::read_link(entry.path()).is_ok_and(|file| is_it(&file)) {
            found = share(descriptor, is_it).or(found);
        }
    }
    found
}

/// Another descriptor of the same open file, made to append; none where it is not open for writing, or is another file by now.
fn share(descriptor: RawFd, is_it: impl Fn(&Path) -> bool) -> Option<File> {
    let ask = |descriptor: RawFd, what: c_int, value: c_int| {
        // SAFETY: what is asked takes a number, and a descriptor that is closed is refused.
        let answer = unsafe { libc::fcntl(descriptor, what, value) };
        (answer >= 0).then_some(answer)
    };
    let own = ask(descriptor, libc::F_DUPFD_CLOEXEC, 3)?;
    // SAFETY: it was made just now, for this.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    let flags = ask(own.as_raw_fd(), libc::F_GETFL, 0)?;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", own.as_raw_fd())).ok()?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY || !is_it(&link) {
        return None;
    }
    ask(own.as_raw_fd(), libc::F_SETFL, flags | libc::O_APPEND)?;
    Some(own.into())
}

/// Can `strftime` have made this name of that template? Each of its specifiers stands for anything.
fn fits(mut template: &[u8], mut name: &[u8]) -> bool {
    // Behind the last specifier, and where the name was then: it may stand for one letter more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (template, name) {
            ([b'%', rest @ ..], _) => {
                // Flags, a width, a modifier, and the letter.
                let is_more = |byte: &&u8| b"_-0^#EO123456789".contains(byte);
                let more = rest.iter().take_while(is_more).count();
                template = rest.get(more + 1..).unwrap_or_default();
                retry = Some((template, name));
            }
            ([wanted, rest @ ..], [letter, behind @ ..]) if wanted == letter => (template, name) = (rest, behind),
            ([], []) => return true,
            _ => match retry {
                Some((behind, [_, rest @ ..])) => {
                    (template, name) = (behind, rest);
                    retry = Some((behind, rest));
                }
                _ => return false,
            },
        }
    }
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
            ("99999999999999999999", 14),
            ("-99999999999999999999", 0),
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
    fn a_name_is_known_by_its_template() {
        for (template, name, does) in [
            ("a.log", "a.log", true),
            ("a.log", "b.log", false),
            ("a_%Y%m%d_%i.log", "a_20261121_77.log", true),
            ("a_%Y%m%d_%i.log", "a_20261121_77.txt", false),
            ("a_%Y-%m.log", "a_2026.log", false),
            ("%5d%-H%Ey", "0002112", true),
            ("tail%", "tail%", true),
            ("%Y%m%d%H%M%S%i%Y%m%d%H%M%S%Y%m%d%H%M%Sx", "2026", false),
        ] {
            assert_eq!(fits(template.as_bytes(), name.as_bytes()), does, "{template} {name}");
        }
        assert_eq!(expanded(Path::new("100%%")), Some("100%".into()));
        let now = expanded(Path::new("a_%Y%m%d_%i_%i.log"));
        assert!(now.is_some_and(|name| fits(b"a_%Y%m%d_%i_%%i.log", name.as_os_str().as_bytes())));
    }
}

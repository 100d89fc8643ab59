//! Writing log entries: to a file that processes may share, and to the standard streams.

use std::fs::File;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::windows::fs::MetadataExt;
use std::os::windows::io::FromRawHandle;
use std::path::{Component, Path, Prefix};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Console::{
    GetConsoleMode, GetStdHandle, STD_ERROR_HANDLE, STD_HANDLE, STD_OUTPUT_HANDLE, WriteConsoleW,
};

/// An open log file.
pub(crate) struct LogFile(File);

impl LogFile {
    /// Opens the file, and empties it if it was modified at a time, in nanoseconds since 1970, that the caller names.
    pub(crate) fn open(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Option<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(name).ok()?;
        let metadata = file.metadata().ok()?;
        if metadata.is_file() && is_emptied(since_1970(metadata.last_write_time())) {
            file.set_len(0).ok()?;
        }
        // Only appending (FILE_APPEND_DATA), so that processes that share the file write complete entries.
        File::options().append(true).open(name).ok().map(LogFile)
    }

    /// Nobody else has this handle.
    pub(crate) fn is_replaced(&self) -> bool {
        false
    }

    pub(crate) fn write(&mut self, text: &[u8]) {
        let _ = self.0.write_all(text);
    }
}

/// From the time of a file, in units of 100 nanoseconds since 1601.
fn since_1970(time: u64) -> i64 {
    const BETWEEN: i64 = 116_444_736_000_000_000;
    i64::try_from(time).unwrap_or(i64::MAX).saturating_sub(BETWEEN).saturating_mul(100)
}

/// Whether the path leads to something that no process empties: a device or a pipe, such as `\\.\pipe\x` or NUL.
pub(crate) fn is_special(name: &Path) -> bool {
    let is_device = |component: Component<'_>| match component {
        Component::Prefix(prefix) => matches!(prefix.kind(), Prefix::DeviceNS(_)),
        _ => false,
    };
    name.components().any(is_device) || std::fs::metadata(name).is_ok_and(|metadata| !metadata.is_file())
}

pub(crate) fn write_to_stdout(text: &[u8]) {
    write_to_stream(STD_OUTPUT_HANDLE, text);
}

pub(crate) fn write_to_stderr(text: &[u8]) {
    write_to_stream(STD_ERROR_HANDLE, text);
}

/// Writes to one of the program's streams, without the lock that `std` has for it.
fn write_to_stream(stream: STD_HANDLE, text: &[u8]) {
    // SAFETY: the call takes a number.
    let handle = unsafe { GetStdHandle(stream) };
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return;
    }
    let mut mode = 0;
    // SAFETY: the answer has room; the call refuses a handle that is no console's.
    if unsafe { GetConsoleMode(handle, &raw mut mode) } != 0 {
        // A console takes bytes in the encoding of its code page.
        let text: Vec<u16> = String::from_utf8_lossy(text).encode_utf16().collect();
        let (length, mut written) = (u32::try_from(text.len()).unwrap_or_default(), 0);
        // SAFETY: the text has the length that is passed.
        unsafe { WriteConsoleW(handle, text.as_ptr(), length, &raw mut written, null_mut()) };
        return;
    }
    // SAFETY: it is written to and not closed; if the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_handle(handle) });
    let _ = file.write_all(text);
}

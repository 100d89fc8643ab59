//! Text that is appended in complete pieces, to a file that processes share or to one of the program's streams.

use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::mem::ManuallyDrop;
use std::os::windows::fs::MetadataExt;
use std::os::windows::io::FromRawHandle;
use std::path::{Component, Path, Prefix};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Console::{
    GetConsoleMode, GetStdHandle, STD_ERROR_HANDLE, STD_HANDLE, STD_OUTPUT_HANDLE, WriteConsoleW,
};

/// A file or stream to which text is appended.
pub struct TextFile(Destination);

enum Destination {
    /// A stream of the program.
    Stream(STD_HANDLE),
    File(File),
}

impl TextFile {
    /// The standard output of the program.
    pub const fn stdout() -> Self {
        TextFile(Destination::Stream(STD_OUTPUT_HANDLE))
    }

    /// The standard error of the program.
    pub const fn stderr() -> Self {
        TextFile(Destination::Stream(STD_ERROR_HANDLE))
    }

    /// Opens a file to append to it, and creates it if need be. Only appending (FILE_APPEND_DATA), so that processes that
    /// share the file write complete pieces.
    ///
    /// # Errors
    /// The system's.
    pub fn open(name: &Path) -> Result<Self> {
        File::options().create(true).append(true).open(name).map(|file| TextFile(Destination::File(file)))
    }

    /// Opens a file to append to it, and empties it if `is_emptied` says so, given the time of the file's last
    /// modification in nanoseconds since 1970.
    ///
    /// # Errors
    /// As [`TextFile::open`].
    pub fn open_emptied(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(name)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && is_emptied(since_1970(metadata.last_write_time())) {
            file.set_len(0)?;
        }
        TextFile::open(name)
    }

    /// Writes the text with one write, if the system takes it in one.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, text: &[u8]) -> Result<()> {
        match &self.0 {
            Destination::Stream(stream) => write_to_stream(*stream, text),
            Destination::File(file) => (&mut &*file).write_all(text),
        }
    }
}

/// From the time of a file, in units of 100 nanoseconds since 1601.
fn since_1970(time: u64) -> i64 {
    const BETWEEN: i64 = 116_444_736_000_000_000;
    i64::try_from(time).unwrap_or(i64::MAX).saturating_sub(BETWEEN).saturating_mul(100)
}

/// Whether the path leads to something that no process empties: a device or a pipe, such as `\\.\pipe\x` or NUL.
pub fn is_special(name: &Path) -> bool {
    let is_device = |component: Component<'_>| match component {
        Component::Prefix(prefix) => matches!(prefix.kind(), Prefix::DeviceNS(_)),
        _ => false,
    };
    name.components().any(is_device) || std::fs::metadata(name).is_ok_and(|metadata| !metadata.is_file())
}

/// The characters that are written to a console at once.
const CONSOLE_PART: usize = 8192;

/// Writes to one of the program's streams, without the lock that `std` has for it.
fn write_to_stream(stream: STD_HANDLE, text: &[u8]) -> Result<()> {
    // SAFETY: the call takes a number.
    let handle = unsafe { GetStdHandle(stream) };
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(Error::from(ErrorKind::NotConnected));
    }
    let mut mode = 0;
    // SAFETY: the answer has room; the call refuses a handle that is no console's.
    if unsafe { GetConsoleMode(handle, &raw mut mode) } != 0 {
        // A console takes bytes in the encoding of its code page.
        let text: Vec<u16> = String::from_utf8_lossy(text).encode_utf16().collect();
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            // A console may refuse a text that is too long, and may write only a part of it.
            let part = match rest.get(..CONSOLE_PART) {
                // Not between the halves of a surrogate pair.
                Some([part @ .., 0xd800..=0xdbff]) => part,
                Some(part) => part,
                None => rest,
            };
            let (length, mut written) = (u32::try_from(part.len()).unwrap_or_default(), 0);
            // SAFETY: the text has the length that is passed.
            if unsafe { WriteConsoleW(handle, part.as_ptr(), length, &raw mut written, null_mut()) } == 0 {
                return Err(Error::last_os_error());
            }
            if written == 0 {
                return Err(Error::from(ErrorKind::WriteZero));
            }
            rest = rest.get(written as usize..).unwrap_or_default();
        }
        return Ok(());
    }
    // SAFETY: it is written to and not closed; if the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_handle(handle) });
    file.write_all(text)
}

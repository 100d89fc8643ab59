//! Appends complete pieces of text to a shared file or to a standard stream on Windows.

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

pub struct TextFile(Destination);

enum Destination {
    Stream(STD_HANDLE),
    File(File),
}

impl TextFile {
    pub const fn stdout() -> Self {
        TextFile(Destination::Stream(STD_OUTPUT_HANDLE))
    }

    pub const fn stderr() -> Self {
        TextFile(Destination::Stream(STD_ERROR_HANDLE))
    }

    // FILE_APPEND_DATA as the only right prevents mixing text from different processes.
    pub fn open(name: &Path) -> Result<Self> {
        File::options().create(true).append(true).open(name).map(|file| TextFile(Destination::File(file)))
    }

    pub fn open_emptied(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(name)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && is_emptied(since_1970(metadata.last_write_time())) {
            file.set_len(0)?;
        }
        TextFile::open(name)
    }

    pub fn write(&self, text: &[u8]) -> Result<()> {
        match &self.0 {
            Destination::Stream(stream) => write_to_stream(*stream, text),
            Destination::File(file) => (&mut &*file).write_all(text),
        }
    }
}

/// Converts a file time in units of 100 nanoseconds since 1601.
fn since_1970(time: u64) -> i64 {
    const BETWEEN: i64 = 116_444_736_000_000_000;
    i64::try_from(time).unwrap_or(i64::MAX).saturating_sub(BETWEEN).saturating_mul(100)
}

/// Returns `true`, because only some users can create symbolic links.
pub fn is_trusted_link(_path: &Path) -> bool {
    true
}

// For example `\\.\pipe\x` or NUL.
pub fn is_special(name: &Path) -> bool {
    let is_device = |component: Component<'_>| match component {
        Component::Prefix(prefix) => matches!(prefix.kind(), Prefix::DeviceNS(_)),
        _ => false,
    };
    name.components().any(is_device) || std::fs::metadata(name).is_ok_and(|metadata| !metadata.is_file())
}

/// The maximum number of UTF-16 units to write to a console at once.
const CONSOLE_PART: usize = 8192;

/// Writes to a standard stream without acquiring the lock of std.
fn write_to_stream(stream: STD_HANDLE, text: &[u8]) -> Result<()> {
    // SAFETY: the argument is a plain integer.
    let handle = unsafe { GetStdHandle(stream) };
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(Error::from(ErrorKind::NotConnected));
    }
    let mut mode = 0;
    // SAFETY: the output pointer is valid. For handles other than consoles, the call fails.
    if unsafe { GetConsoleMode(handle, &raw mut mode) } != 0 {
        // Bytes would have to be in the code page of the console.
        let text: Vec<u16> = String::from_utf8_lossy(text).encode_utf16().collect();
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            // A console may reject long text or write only part of it.
            let part = match rest.get(..CONSOLE_PART) {
                // Do not split a surrogate pair.
                Some([part @ .., 0xd800..=0xdbff]) => part,
                Some(part) => part,
                None => rest,
            };
            let (length, mut written) = (u32::try_from(part.len()).unwrap_or_default(), 0);
            // SAFETY: the text and the length match.
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
    // SAFETY: `ManuallyDrop` leaves the handle open. If the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_handle(handle) });
    file.write_all(text)
}

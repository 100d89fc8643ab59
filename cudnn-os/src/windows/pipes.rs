//! Pipes between a program and its children, read without waiting: a child of the child may have the other end open
//! forever. A child sends its messages through its standard input, which is a pipe in both directions.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Stdio;

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_FIRST_PIPE_INSTANCE, PIPE_ACCESS_DUPLEX};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT, PeekNamedPipe,
};

use super::random;
use super::wide::wide;

/// The bytes that a channel holds in each direction.
const CHANNEL_LEN: u32 = 64 << 10;

/// The parent's end.
pub struct Pipe(File);

impl Pipe {
    /// Reads the bytes that are there, without waiting for more.
    ///
    /// # Errors
    /// `WouldBlock` if there are none, or the system's error.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let len = available(&self.0)?.min(into.len());
        match into.get_mut(..len) {
            None | Some([]) => Err(Error::from(ErrorKind::WouldBlock)),
            Some(into) => self.0.read(into),
        }
    }
}

/// The bytes that can be read from a pipe now.
fn available(pipe: &impl AsRawHandle) -> Result<usize> {
    let (handle, null) = (pipe.as_raw_handle(), std::ptr::null_mut());
    let mut available = 0;
    // SAFETY: the handle is open; the call fails for what is no pipe, and writes one number.
    if unsafe { PeekNamedPipe(handle, null, 0, null.cast(), &raw mut available, null.cast()) } == 0 {
        return Err(Error::last_os_error());
    }
    Ok(available as usize)
}

/// Creates a pipe. Returns the parent's end, and the child's.
///
/// # Errors
/// The system's.
pub fn pipe() -> Result<(Pipe, Stdio)> {
    let (ours, childs) = std::io::pipe()?;
    Ok((Pipe(File::from(OwnedHandle::from(ours))), childs.into()))
}

/// Creates a channel in both directions, and sends this text to the child. Returns the parent's end, and the child's.
///
/// # Errors
/// The system's.
pub fn channel(text: &[u8]) -> Result<(Pipe, Stdio)> {
    // Nobody can open it before this process does.
    let mut number = [0u8; 16];
    random::fill(&mut number)?;
    let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(r"\\.\pipe\cudnn-os-{}-{number}", std::process::id());
    let wide = wide(name.as_ref()).ok_or(ErrorKind::InvalidInput)?;
    let access = PIPE_ACCESS_DUPLEX | FILE_FLAG_FIRST_PIPE_INSTANCE;
    let mode = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS;
    // SAFETY: the name ends with a zero, and the security attributes may be null.
    let handle =
        unsafe { CreateNamedPipeW(wide.as_ptr(), access, mode, 1, CHANNEL_LEN, CHANNEL_LEN, 0, std::ptr::null()) };
    if handle == INVALID_HANDLE_VALUE {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call has returned this open handle, which nothing else owns.
    let mut ours = File::from(unsafe { OwnedHandle::from_raw_handle(handle) });
    let childs = File::options().read(true).write(true).open(&name)?;
    ours.write_all(text)?;
    Ok((Pipe(ours), childs.into()))
}

/// In the child: reads the text that the parent has sent through the standard input. Does not wait, and returns `None` for anything but a
/// pipe that holds as much.
pub fn receive(into: &mut [u8]) -> Option<usize> {
    let stdin = std::io::stdin();
    if available(&stdin).ok()? < into.len() {
        return None;
    }
    let mut stdin = File::from(stdin.as_handle().try_clone_to_owned().ok()?);
    stdin.read(into).ok()
}

/// In the child: sends bytes to the parent.
///
/// # Errors
/// The system's.
pub fn report(bytes: &[u8]) -> Result<()> {
    File::from(std::io::stdin().as_handle().try_clone_to_owned()?).write_all(bytes)
}

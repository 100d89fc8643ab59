//! The pipes between the doctor and its children, read without waiting: a child of the child may have the other end open
//! forever. A child sends its messages through its standard input, which is a pipe in both directions.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::process::Stdio;

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Security::Cryptography::{BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom};
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_FIRST_PIPE_INSTANCE, PIPE_ACCESS_DUPLEX};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT, PeekNamedPipe,
};

/// The bytes that a channel holds in each direction.
const CHANNEL_LEN: u32 = 64 << 10;

/// The parent's end.
pub(crate) struct Pipe(File);

impl Pipe {
    /// Reads what is there; an error if that is nothing.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
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

/// A pipe: the parent's end, and the child's.
pub(crate) fn pipe() -> Result<(Pipe, Stdio)> {
    let (ours, childs) = std::io::pipe()?;
    Ok((Pipe(File::from(OwnedHandle::from(ours))), childs.into()))
}

/// A channel in both directions, through which this text has been sent: the parent's end, and the child's.
pub(crate) fn channel(text: &[u8]) -> Result<(Pipe, Stdio)> {
    // Nobody can open it before this process does.
    let mut number = [0u8; 16];
    random(&mut number)?;
    let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(r"\\.\pipe\cudnn-doctor-{}-{number}", std::process::id());
    let wide: Vec<u16> = Path::new(&name).as_os_str().encode_wide().chain([0]).collect();
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

/// In the child: the text that the parent has sent through the standard input. Does not wait, and fails for anything but a
/// pipe that holds as much.
pub(crate) fn receive(into: &mut [u8]) -> Option<usize> {
    let stdin = std::io::stdin();
    if available(&stdin).ok()? < into.len() {
        return None;
    }
    let mut stdin = File::from(stdin.as_handle().try_clone_to_owned().ok()?);
    stdin.read(into).ok()
}

/// In the child: sends bytes to the parent.
pub(crate) fn report(bytes: &[u8]) -> Result<()> {
    File::from(std::io::stdin().as_handle().try_clone_to_owned()?).write_all(bytes)
}

/// Fills the buffer with bytes that nobody can guess.
pub(crate) fn random(into: &mut [u8]) -> Result<()> {
    let len = u32::try_from(into.len()).map_err(Error::other)?;
    // SAFETY: the buffer has this length; with this flag, no algorithm is named.
    let status =
        unsafe { BCryptGenRandom(std::ptr::null_mut(), into.as_mut_ptr(), len, BCRYPT_USE_SYSTEM_PREFERRED_RNG) };
    if status == 0 { Ok(()) } else { Err(Error::other(format!("BCryptGenRandom failed with {status:#x}"))) }
}

//! Connects a program with child processes through pipes. Standard input of a child is a bidirectional named pipe.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Stdio;

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_FIRST_PIPE_INSTANCE, PIPE_ACCESS_DUPLEX};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT, PeekNamedPipe,
};

use super::wide::wide;

const CHANNEL_LEN: u32 = 64 << 10;

pub struct Pipe(File);

impl Pipe {
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let len = available(&self.0)?.min(into.len());
        match into.get_mut(..len) {
            None | Some([]) => Err(Error::from(ErrorKind::WouldBlock)),
            Some(into) => self.0.read(into),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes)
    }
}

fn available(pipe: &impl AsRawHandle) -> Result<usize> {
    let (handle, null) = (pipe.as_raw_handle(), std::ptr::null_mut());
    let mut available = 0;
    // SAFETY: the handle is open, and the output pointer is valid. For other kinds of handles, the call fails.
    if unsafe { PeekNamedPipe(handle, null, 0, null.cast(), &raw mut available, null.cast()) } == 0 {
        return Err(Error::last_os_error());
    }
    Ok(available as usize)
}

pub fn pipe() -> Result<(Pipe, Stdio)> {
    let (ours, child_end) = std::io::pipe()?;
    Ok((Pipe(File::from(OwnedHandle::from(ours))), child_end.into()))
}

pub fn channel(text: &[u8]) -> Result<(Pipe, Stdio)> {
    // A random name prevents other processes from opening the pipe first.
    let mut number = [0u8; 16];
    getrandom::fill(&mut number)?;
    let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(r"\\.\pipe\cudnn-os-{}-{number}", std::process::id());
    let wide = wide(name.as_ref()).ok_or(ErrorKind::InvalidInput)?;
    let access = PIPE_ACCESS_DUPLEX | FILE_FLAG_FIRST_PIPE_INSTANCE;
    let mode = PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS;
    // SAFETY: the name is NUL-terminated, and the security attributes may be null.
    let handle =
        unsafe { CreateNamedPipeW(wide.as_ptr(), access, mode, 1, CHANNEL_LEN, CHANNEL_LEN, 0, std::ptr::null()) };
    if handle == INVALID_HANDLE_VALUE {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call returned an open handle, and this value becomes the only owner.
    let mut ours = File::from(unsafe { OwnedHandle::from_raw_handle(handle) });
    let child_end = File::options().read(true).write(true).open(&name)?;
    ours.write_all(text)?;
    Ok((Pipe(ours), child_end.into()))
}

pub fn receive(into: &mut [u8]) -> Option<usize> {
    let stdin = std::io::stdin();
    if available(&stdin).ok()? < into.len() {
        return None;
    }
    let mut stdin = File::from(stdin.as_handle().try_clone_to_owned().ok()?);
    stdin.read(into).ok()
}

pub fn report(bytes: &[u8]) -> Result<()> {
    File::from(std::io::stdin().as_handle().try_clone_to_owned()?).write_all(bytes)
}

//! Pipes between a program and its children, read without waiting: a child of the child may have the other end open
//! forever. A child sends its messages through its standard input, which is a socket.

use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// The parent's end.
pub struct Pipe(File);

impl Pipe {
    fn new(ours: OwnedFd) -> Result<Pipe> {
        // SAFETY: the descriptor is open, and the command takes a number.
        if unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(Error::last_os_error());
        }
        Ok(Pipe(File::from(ours)))
    }

    /// Reads the bytes that are there, without waiting for more.
    ///
    /// # Errors
    /// `WouldBlock` if there are none, or the system's error.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.0.read(into)
    }
}

/// Creates a pipe. Returns the parent's end, and the child's.
///
/// # Errors
/// The system's.
pub fn pipe() -> Result<(Pipe, Stdio)> {
    let (ours, childs) = std::io::pipe()?;
    Ok((Pipe::new(ours.into())?, childs.into()))
}

/// Creates a channel in both directions, and sends this text to the child. Returns the parent's end, and the child's.
///
/// # Errors
/// The system's.
pub fn channel(text: &[u8]) -> Result<(Pipe, Stdio)> {
    let (mut ours, childs) = UnixStream::pair()?;
    ours.write_all(text)?;
    Ok((Pipe::new(ours.into())?, OwnedFd::from(childs).into()))
}

/// In the child: reads the text that the parent has sent through the standard input. Does not wait, and returns `None` for anything but a
/// channel.
pub fn receive(into: &mut [u8]) -> Option<usize> {
    // SAFETY: the buffer has this length.
    let len = unsafe { libc::recv(libc::STDIN_FILENO, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
    usize::try_from(len).ok()
}

/// In the child: sends bytes to the parent.
///
/// # Errors
/// The system's.
pub fn report(bytes: &[u8]) -> Result<()> {
    File::from(std::io::stdin().as_fd().try_clone_to_owned()?).write_all(bytes)
}

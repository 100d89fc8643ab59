//! Connects a program with child processes through pipes. Reading never blocks, because a grandchild may keep the other
//! end open forever. A child sends messages through standard input, which is a socket.

use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// The parent's end of a pipe.
pub struct Pipe(File);

impl Pipe {
    fn new(ours: OwnedFd) -> Result<Pipe> {
        // SAFETY: the descriptor is open, and the argument is a plain integer.
        if unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(Error::last_os_error());
        }
        Ok(Pipe(File::from(ours)))
    }

    /// Reads available bytes without waiting for more.
    ///
    /// # Errors
    /// Returns `WouldBlock` if no bytes are available, or the error of the system call.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.0.read(into)
    }

    /// Sends as many bytes as fit to the child through a [`channel`], and returns their number. On Windows, the call
    /// waits until all fit, so a child must read before it does anything else.
    ///
    /// # Errors
    /// Returns `WouldBlock` if no bytes fit, or the error of the system call.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.write(bytes)
    }
}

/// Creates a pipe. Returns the ends for the parent and the child.
pub fn pipe() -> Result<(Pipe, Stdio)> {
    let (ours, child_end) = std::io::pipe()?;
    Ok((Pipe::new(ours.into())?, child_end.into()))
}

/// Creates a bidirectional channel and sends this text to the child. Returns the ends for the parent and the child.
pub fn channel(text: &[u8]) -> Result<(Pipe, Stdio)> {
    let (mut ours, child_end) = UnixStream::pair()?;
    ours.write_all(text)?;
    Ok((Pipe::new(ours.into())?, OwnedFd::from(child_end).into()))
}

/// Called by the child: reads available text from the parent, or returns `None` if stdin is not a channel.
pub fn receive(into: &mut [u8]) -> Option<usize> {
    // SAFETY: the buffer has this length.
    let len = unsafe { libc::recv(libc::STDIN_FILENO, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
    usize::try_from(len).ok()
}

/// Called by the child: sends bytes to the parent.
pub fn report(bytes: &[u8]) -> Result<()> {
    File::from(std::io::stdin().as_fd().try_clone_to_owned()?).write_all(bytes)
}

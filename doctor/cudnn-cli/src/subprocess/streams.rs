//! Collects the output of a child process. Long output is reduced to the beginning and the end.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::process::Stdio;

use cudnn_os::pipes::Pipe;
use serde_json::Value;

use crate::child_report::{MAX_MESSAGE_LEN, TOKEN_LEN};

/// The number of bytes to store from the beginning and the end.
const MAX_HEAD_LEN: usize = 1 << 20;
const MAX_TAIL_LEN: usize = 64 << 10;

/// The maximum number of bytes per read, so that endless output cannot block the parent.
const MAX_READ_LEN: usize = 1 << 20;

/// The parent's ends of the child's streams.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) reports: Reports,
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
}

impl Streams {
    pub(super) fn read(&mut self) -> bool {
        self.reports.stream.read(MAX_MESSAGE_LEN) | self.stdout.read(MAX_HEAD_LEN) | self.stderr.read(MAX_HEAD_LEN)
    }

    pub(super) fn forget_output(&mut self) {
        self.read();
        for stream in [&mut self.stdout, &mut self.stderr] {
            (stream.head, stream.tail, stream.omitted) = (Vec::new(), Vec::new(), 0);
        }
    }
}

/// The channel for the child's messages. Each message starts with a secret token from the parent, so that the output of
/// a library cannot be mistaken for a message.
#[derive(Default)]
pub(super) struct Reports {
    stream: Stream,
    token: String,
    /// The bytes to send when the channel has room.
    unsent: VecDeque<u8>,
}

impl Reports {
    /// Returns the child's end of the channel, which already contains the token.
    pub(super) fn open_channel(&mut self) -> std::io::Result<Stdio> {
        self.token = token()?;
        let (ours, child_end) = cudnn_os::pipes::channel(format!("{}\n", self.token).as_bytes())?;
        self.stream.pipe = Some(ours);
        Ok(child_end)
    }

    /// Sends a line to the child. [`Reports::write`] continues if the channel is full.
    pub(super) fn send(&mut self, line: &[u8]) {
        self.unsent.extend(line);
        self.unsent.push_back(b'\n');
        self.write();
    }

    pub(super) fn write(&mut self) {
        let Some(pipe) = &mut self.stream.pipe else { return };
        while !self.unsent.is_empty() {
            match pipe.write(self.unsent.as_slices().0) {
                Ok(len @ 1..) => drop(self.unsent.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The channel is full, or the child has exited.
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Removes the child's next message, ignoring lines without the token.
    pub(super) fn take_message(&mut self) -> Option<Value> {
        while let Some(line) = self.stream.take_line() {
            let line = String::from_utf8_lossy(&line);
            // Another process may have written the beginning of the line.
            if let Some((_, message)) = line.rsplit_once(&self.token)
                && let Ok(message) = serde_json::from_str(message)
            {
                return Some(message);
            }
        }
        None
    }
}

/// Generates an unguessable token of [`TOKEN_LEN`] bytes.
fn token() -> std::io::Result<String> {
    let mut bytes = [0u8; TOKEN_LEN / 2];
    cudnn_os::random::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[derive(Default)]
pub(super) struct Stream {
    pipe: Option<Pipe>,
    head: Vec<u8>,
    tail: Vec<u8>,
    omitted: usize,
}

impl Stream {
    pub(super) fn open(&mut self) -> std::io::Result<Stdio> {
        let (ours, child_end) = cudnn_os::pipes::pipe()?;
        self.pipe = Some(ours);
        Ok(child_end)
    }

    /// Reads available output, up to a total of this number of bytes in the head. Returns whether there was any.
    fn read(&mut self, max_head_len: usize) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let (mut block, mut total) = ([0u8; 1 << 14], 0);
        while total < MAX_READ_LEN {
            match pipe.read(&mut block) {
                Ok(len @ 1..) => {
                    total += len;
                    let (bytes, _) = block.split_at(len);
                    let (head, rest) = bytes.split_at(len.min(max_head_len.saturating_sub(self.head.len())));
                    self.head.extend_from_slice(head);
                    self.tail.extend_from_slice(rest);
                    let excess = self.tail.len().saturating_sub(MAX_TAIL_LEN);
                    self.tail.drain(..excess);
                    self.omitted += excess;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        total > 0
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.head.iter().position(|byte| *byte == b'\n')?;
        Some(self.head.drain(..=end).collect())
    }

    pub(super) fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.omitted > 0 {
            text.push_str(&format!("\n({} bytes are not shown)\n", self.omitted));
        }
        text + &String::from_utf8_lossy(&self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let mut stream = Stream::default();
        let script = "echo first; head -c 2000000 /dev/zero | tr '\\0' x; echo; echo last";
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", script]).stdout(stream.open().unwrap()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            stream.read(MAX_HEAD_LEN);
        }
        while stream.read(MAX_HEAD_LEN) {}
        let text = stream.into_text();
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n") && text.contains("bytes are not shown"));
        assert!(text.len() < MAX_HEAD_LEN + MAX_TAIL_LEN + 100);
    }
}

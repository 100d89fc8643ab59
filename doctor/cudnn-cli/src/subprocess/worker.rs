//! A child process that answers requests one after another.

use std::io::{Error, ErrorKind, Result};
use std::process::Command;
use std::time::Instant;

use cudnn_os::interruption::Signal;
use serde_json::Value;

use super::streams::Streams;
use super::{Ended, Running, Stop, Timeouts};
use crate::child_report::{ChildStep, MAX_MESSAGE_LEN};

/// A child process that reads requests with [`receive`](crate::child_report::receive). It runs without a terminal.
/// Dropping this value ends it and the processes that it has started.
pub struct Worker<'a>(Box<Running<'a>>);

/// The result of a request.
pub enum Answer<'a> {
    /// The child's answer. It waits for the next request.
    Message(Value, Worker<'a>),
    /// The child exited, or exceeded a time limit and was killed.
    Ended(Ended),
    /// This program was interrupted, and the child was killed.
    Interrupted(Signal),
}

impl<'a> Worker<'a> {
    /// Starts the child. The time limits apply to each request.
    ///
    /// # Errors
    /// Returns an error if the program is not found or the system cannot start a process.
    pub fn start(mut command: Command, timeouts: &'a Timeouts) -> Result<Self> {
        let mut streams = Streams::default();
        command.stdout(streams.stdout.open()?).stderr(streams.stderr.open()?);
        Running::start(command, streams, timeouts, true).map(|running| Worker(Box::new(running)))
    }

    /// Sends a request and waits for the answer, which is the first message other than a step. Calls `wait` repeatedly.
    ///
    /// # Errors
    /// Returns an error if the request is too long or the child's state is unknown.
    pub fn ask(mut self, request: &[u8], wait: &mut dyn FnMut(Option<&ChildStep>)) -> Result<Answer<'a>> {
        if request.len() >= MAX_MESSAGE_LEN {
            return Err(Error::new(ErrorKind::InvalidInput, "the request is too long"));
        }
        let running = &mut self.0;
        running.streams.forget_output();
        running.streams.reports.send(request);
        let now = Instant::now();
        (running.start, running.step_start, running.progress, running.step) = (now, now, now, None);
        loop {
            let stop = running.poll();
            if let Some(answer) = running.messages.pop() {
                return Ok(Answer::Message(answer, self));
            }
            let limit = match stop {
                None => {
                    wait(running.step.as_ref());
                    continue;
                }
                Some(Stop::Ended) => None,
                Some(Stop::Limit(limit)) => Some(limit),
                Some(Stop::Interrupted(signal)) => {
                    self.end()?;
                    return Ok(Answer::Interrupted(signal));
                }
            };
            return self.0.end(limit).map(Answer::Ended);
        }
    }

    /// Ends the child and waits until it has exited.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn end(mut self) -> Result<()> {
        self.0.child.end().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shell<'a>(script: &str, timeouts: &'a Timeouts) -> Worker<'a> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Worker::start(command, timeouts).unwrap()
    }

    fn ask<'a>(worker: Worker<'a>, request: &[u8]) -> Answer<'a> {
        worker.ask(request, &mut |_| {}).unwrap()
    }

    /// Answers with the length of a request, and exits on request.
    const LENGTHS: &str = r#"IFS= read -r token
        while IFS= read -r line; do
            case $line in exit*) echo "asked for $line" >&2; exit 3;; wait) sleep 600;; esac
            echo "has read a line" >&2
            printf '%s{"work":"Compute","text":"counted"}\n%s{"length":%d}\n' "$token" "$token" ${#line} >&0
        done"#;

    #[test]
    fn requests_are_answered_in_turn_until_the_child_ends() {
        let timeouts = Timeouts::new(None);
        let mut worker = shell(LENGTHS, &timeouts);
        // The last request does not fit the channel's buffer.
        for length in [0, 5, 1_000_000] {
            let Answer::Message(answer, next) = ask(worker, &vec![b'x'; length]) else { panic!() };
            assert_eq!(answer["length"], length);
            worker = next;
        }
        let Answer::Ended(ended) = ask(worker, b"exit now") else { panic!() };
        assert!(matches!(ended.end, super::super::End::Exited { code: Some(3), .. }), "{:?}", ended.end);
        // Earlier output was discarded.
        assert_eq!((ended.stderr.as_str(), ended.during()), ("asked for exit now\n", String::new()));
    }

    #[test]
    fn each_request_has_the_whole_time() {
        let timeouts = Timeouts::new(Some(Duration::from_secs(1)));
        let worker = shell(LENGTHS, &timeouts);
        let Answer::Message(_, worker) = ask(worker, b"a line") else { panic!() };
        let Answer::Ended(ended) = ask(worker, b"wait") else { panic!() };
        assert!(ended.end.is_hang());
    }

    #[test]
    fn long_requests_are_refused() {
        let timeouts = Timeouts::new(None);
        let worker = shell(LENGTHS, &timeouts);
        let refused = worker.ask(&vec![b'x'; MAX_MESSAGE_LEN], &mut |_| {});
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::InvalidInput);
    }
}

//! Sends messages from a child process to its parent, and receives requests. The channel is standard input, because
//! libraries may print to stdout and stderr. Each message begins with a token that the child has read from the channel.

use std::io::{BufRead, Read};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The kind of work, which determines the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Open one of the driver's libraries.
    OpenDriver,
    /// Query NVML.
    QueryNvml,
    /// Initialize the driver.
    StartDriver,
    /// Load a cuDNN library, possibly by the first call of a function.
    Load,
    /// Load a CUDA library that cuDNN opens.
    LoadCuda,
    /// Compute.
    Compute,
    /// Fetch a release, with pip's own limits.
    Fetch,
}

/// The length of the token in bytes.
pub const TOKEN_LEN: usize = 32;

/// The maximum length of a message or request in bytes.
pub const MAX_MESSAGE_LEN: usize = 64 << 20;

impl Work {
    pub(crate) fn activity(self) -> &'static str {
        match self {
            Work::OpenDriver | Work::QueryNvml | Work::StartDriver => "asking the driver",
            Work::Load | Work::LoadCuda => "loading libraries",
            Work::Compute => "computing",
            Work::Fetch => "fetching",
        }
    }
}

/// A step of a child process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildStep {
    /// The type of work.
    pub work: Work,
    /// A text to follow "while it", such as `loaded libcudnn_ops.so.9`.
    pub text: String,
    /// The number of the request's part that the step is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
}

impl ChildStep {
    /// Parses a message that is a step.
    pub fn parse(message: &Value) -> Option<ChildStep> {
        ChildStep::deserialize(message).ok()
    }

    /// Returns whether the step uses the driver, but not cuDNN.
    pub fn is_of_driver(&self) -> bool {
        matches!(self.work, Work::OpenDriver | Work::QueryNvml | Work::StartDriver)
    }
}

/// Tells the parent that a step starts.
pub fn begin(work: Work, text: impl Into<String>) {
    begin_part(work, text, None);
}

/// Tells the parent that a step for this part of the request starts.
pub fn begin_part(work: Work, text: impl Into<String>, part: Option<usize>) {
    send(&json!(ChildStep { work, text: text.into(), part }));
}

/// Sends a message to the parent, if there is one. The first message must precede the loading of libraries, which could
/// read the token.
pub fn send(message: &Value) {
    let Some(token) = token() else { return };
    let _ = cudnn_os::pipes::report(format!("{token}{message}\n").as_bytes());
}

/// Waits for the next request. Returns `None` if the parent has closed the channel.
pub fn receive() -> Option<Vec<u8>> {
    token()?;
    let mut line = Vec::new();
    std::io::stdin().lock().take(MAX_MESSAGE_LEN as u64).read_until(b'\n', &mut line).ok()?;
    line.ends_with(b"\n").then_some(line)
}

/// Returns the token, if standard input is a channel to this program.
fn token() -> Option<&'static str> {
    static TOKEN: OnceLock<Option<String>> = OnceLock::new();
    TOKEN.get_or_init(read_token).as_deref()
}

fn read_token() -> Option<String> {
    let mut bytes = [0u8; TOKEN_LEN + 1];
    let len = cudnn_os::pipes::receive(&mut bytes)?;
    let text = bytes.strip_suffix(b"\n").filter(|_| len == bytes.len())?;
    String::from_utf8(text.to_vec()).ok()
}

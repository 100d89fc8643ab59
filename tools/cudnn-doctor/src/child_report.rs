//! Sends messages from a child process of the doctor to its parent. They go through the child's standard input, which
//! is a channel to the parent, because libraries may print to its other two streams. Each message begins with a token,
//! which the child reads from that channel first.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The kind of work that a step is. Each has a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Opens one of the driver's libraries.
    OpenDriver,
    /// Queries NVML.
    QueryNvml,
    /// Starts the driver.
    StartDriver,
    /// Loads a library of cuDNN, or makes a first call that loads some.
    Load,
    /// Loads a library of CUDA that cuDNN opens.
    LoadCuda,
    /// Computes.
    Compute,
    /// Fetches a release. pip has limits of its own.
    Fetch,
}

/// Each kind of work, and its name in a message.
const NAMES: [(Work, &str); 7] = [
    (Work::OpenDriver, "open driver"),
    (Work::QueryNvml, "query NVML"),
    (Work::StartDriver, "start driver"),
    (Work::Load, "load"),
    (Work::LoadCuda, "load CUDA"),
    (Work::Compute, "compute"),
    (Work::Fetch, "fetch"),
];

/// The length of the token before each message, in bytes.
pub(crate) const TOKEN_LEN: usize = 32;

/// The key of a message about a step.
const STEP: &str = "step";

/// A step of a child process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) work: Work,
    /// The step as a clause, to follow "while it": `loaded libcudnn_ops.so.9`.
    pub(crate) text: String,
}

impl Step {
    /// The step that a message is about.
    pub(crate) fn parse(message: &Value) -> Option<Step> {
        let name = message.get(STEP)?.as_str()?;
        let (work, _) = NAMES.iter().find(|(_, known)| *known == name)?;
        Some(Step { work: *work, text: message.get("text")?.as_str()?.to_owned() })
    }

    /// Is it about the driver, and not about cuDNN?
    pub(crate) fn is_of_driver(&self) -> bool {
        matches!(self.work, Work::OpenDriver | Work::QueryNvml | Work::StartDriver)
    }
}

/// Tells the parent which step begins.
pub(crate) fn begin(work: Work, text: impl Into<String>) {
    let name = NAMES.iter().find(|(known, _)| *known == work).map(|(_, name)| *name);
    send(&json!({ STEP: name, "text": text.into() }));
}

/// Sends a message to the parent, if there is one. The first one must go before a library is loaded, which could read the
/// token.
pub(crate) fn send(message: &Value) {
    static TOKEN: OnceLock<Option<String>> = OnceLock::new();
    let Some(token) = TOKEN.get_or_init(read_token) else { return };
    // Without a parent, nobody reads it.
    let _ = cudnn_os::pipes::report(format!("{token}{message}\n").as_bytes());
}

/// The token that the parent has sent; `None` if standard input is no channel to the doctor.
fn read_token() -> Option<String> {
    let mut bytes = [0u8; TOKEN_LEN + 1];
    let len = cudnn_os::pipes::receive(&mut bytes)?;
    let text = bytes.strip_suffix(b"\n").filter(|_| len == bytes.len())?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_has_a_name() {
        let works = [Work::OpenDriver, Work::QueryNvml, Work::StartDriver, Work::Load, Work::LoadCuda, Work::Compute];
        for work in works.into_iter().chain([Work::Fetch]) {
            assert_eq!(NAMES.iter().filter(|(known, _)| *known == work).count(), 1, "{work:?}");
        }
    }
}

//! Finds the reason for a failure in cuDNN's messages.

use cudnn_sys::types::cudnnStatus_t;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reason {
    /// The name of the status without the common prefix, such as `NOT_SUPPORTED_DATA_TYPE`.
    pub(super) status: String,
    /// cuDNN's condition or sentence, which may be empty.
    pub(super) text: String,
}

const PREFIX: &str = "CUDNN_STATUS_";
/// The beginning of the last error that the layer `errata` sets.
const ERRATUM: &str = "blocked by the erratum ";

impl Reason {
    /// Finds the reason in the messages of a call, or otherwise in the last error.
    pub(super) fn new(status: cudnnStatus_t, messages: &str, last_error: &str) -> Self {
        let frames: Vec<Frame<'_>> = messages.lines().filter_map(Frame::parse).collect();
        // An engine may pass on a missing library as a general status.
        let prerequisite = frames.iter().find(|frame| is_prerequisite(frame.status, frame.text)).copied();
        let innermost = prerequisite.or_else(|| innermost(&frames));
        let name = match innermost {
            Some(frame) => frame.status.to_owned(),
            None => status_name(status),
        };
        let text = match innermost {
            Some(frame) => frame.text,
            None => last_error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default(),
        };
        // The rule is followed by the graph and the engine.
        let text = if text.starts_with(ERRATUM) { text.rsplit_once(": ").map_or(text, |(rule, _)| rule) } else { text };
        Reason { status: name, text: text.to_owned() }
    }

    pub(super) fn is_erratum(&self) -> bool {
        self.text.starts_with(ERRATUM)
    }

    /// Returns the position of this reason in a report. Missing prerequisites come first, then engines that accepted
    /// the graph before they failed, then special conditions, and finally engines for other graphs and other GPUs.
    pub(super) fn rank(&self, has_accepted: bool) -> u8 {
        match self.status.as_str() {
            _ if self.is_prerequisite() || self.is_erratum() => 0,
            _ if has_accepted => 1,
            _ if self.text == "status" => UNRELATED + 3,
            "NOT_SUPPORTED_ARCH_MISMATCH" => UNRELATED + 2,
            "NOT_SUPPORTED" => UNRELATED + 1,
            "NOT_SUPPORTED_GRAPH_PATTERN" => UNRELATED,
            _ => 2,
        }
    }

    /// Returns whether the engine needs something that is missing on this machine, such as a library.
    pub(super) fn is_prerequisite(&self) -> bool {
        is_prerequisite(&self.status, &self.text)
    }

    pub(super) fn lacks_nvrtc(&self) -> bool {
        // Without a text, cuDNN's messages were not received.
        self.is_prerequisite() && (self.text.is_empty() || self.text.to_ascii_lowercase().contains("nvrtc"))
    }
}

fn is_prerequisite(status: &str, text: &str) -> bool {
    const STATUSES: [&str; 4] = ["PREREQUISITE", "SUBLIBRARY", "INCOMPATIBLE_CUDART", "INCOMPATIBLE_CUDA_DRIVER"];
    const TEXTS: [&str; 4] = ["could not open", "unable to load", "could not load", "cannot load"];
    let text = text.to_ascii_lowercase();
    STATUSES.iter().any(|part| status.contains(part)) || TEXTS.iter().any(|part| text.contains(part))
}

/// The first rank of reasons unrelated to the graph's types and extents.
pub(super) const UNRELATED: u8 = 3;

pub(super) fn status_name(status: cudnnStatus_t) -> String {
    let name = status.name().and_then(|name| name.to_str().ok()).map(|name| name.trim_start_matches(PREFIX));
    name.map_or_else(|| format!("status {}", status.0), str::to_owned)
}

#[derive(Clone, Copy)]
struct Frame<'a> {
    status: &'a str,
    text: &'a str,
}

impl<'a> Frame<'a> {
    /// Parses `Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: rank > 5`.
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let rest = line.strip_prefix("Warning: ").or_else(|| line.strip_prefix("Error: "))?;
        let (status, text) = rest.split_once("; Reason: ")?;
        let status = status.strip_prefix(PREFIX)?;
        (status != "SUCCESS").then_some(Frame { status, text })
    }
}

/// Returns the frame with the most information. A traceback lists the innermost condition first, followed by the calls
/// that pass it on. Conditions of other engines that cuDNN tried may precede it.
fn innermost<'a>(frames: &[Frame<'a>]) -> Option<Frame<'a>> {
    let last = *frames.last()?;
    // The chain of calls ends where the status changes. A general status covers its special ones.
    let is_same = |frame: &&Frame<'_>| frame.status.starts_with(last.status);
    let chain: Vec<Frame<'a>> = frames.iter().rev().take_while(is_same).copied().collect();
    let is_special = |frame: &&Frame<'_>| frame.status != last.status;
    let special = chain.iter().rev().find(is_special);
    let condition = chain.iter().rev().find(|frame| !is_call(frame.text));
    special.or(condition).or(chain.last()).copied().or(Some(last))
}

/// Returns whether a text is an internal call, such as `ptrDesc->finalize()`, and not a condition.
fn is_call(text: &str) -> bool {
    text.ends_with(')') && !text.contains(['!', '=', '<', '&', '|']) && !text.replace("->", "").contains('>')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(messages: &str) -> (String, String) {
        let reason = Reason::new(cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED, messages, "the last error");
        (reason.status, reason.text)
    }

    #[test]
    fn the_innermost_condition_of_the_failed_call_is_the_reason() {
        let messages = "CuDNN (v91900 56) function cudnnBackendFinalize() called:
                Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: !isValidSetting(name, c)
                Warning: CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE; Reason: !is_input_compute_type_match
                Warning: CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE; Reason: check_for_support()
                Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: ptrDesc->finalize()";
        assert_eq!(reason(messages), ("NOT_SUPPORTED_DATA_TYPE".into(), "!is_input_compute_type_match".into()));
        assert_eq!(reason(""), ("NOT_SUPPORTED".into(), "the last error".into()));
        assert_eq!(
            reason("Warning: CUDNN_STATUS_SUCCESS; Reason: a remark"),
            ("NOT_SUPPORTED".into(), "the last error".into())
        );
    }
}

//! The options of the layer, from the environment or from the program.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::configured::{configured_in_code, variable};

/// The environment variable with the name of the capture. The first `%i` is replaced by the process ID.
pub const VARIABLE: &str = "CUDNN_CAPTURE";

/// The environment variable that requests values of tensors. Requests are separated by commas. Each is `all` or the id
/// of a graph, optionally followed by `@` and the number of an execution, `nan` or `mismatch`. `nan` means `all@nan`.
pub const DATA_VARIABLE: &str = "CUDNN_CAPTURE_DATA";

/// Options of the layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The name of the capture. The first `%i` is replaced by the process ID.
    pub file: PathBuf,
}

configured_in_code! {
    /// The program cannot set [`DATA_VARIABLE`].
    Options
}

impl Options {
    /// Returns options that write to this file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Options { file: file.into() }
    }

    /// Returns the options from the program or the environment. Returns an error if there is no file name.
    pub(super) fn chosen() -> Result<Options, String> {
        let options = configured().or_else(|| variable(VARIABLE).map(Options::new));
        options.ok_or(format!("{VARIABLE} does not name a file"))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct DataRequest {
    /// The id of the graph, or `None` for all graphs.
    graph: Option<String>,
    pub(super) trigger: Trigger,
}

/// The condition for storing the tensors of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// The execution with this number, from 1.
    Execution(u64),
    /// The first execution that produces NaNs or infinities from finite inputs.
    Nan,
    /// The first execution that returns different bits for inputs of an earlier execution.
    Mismatch,
}

impl DataRequest {
    pub(super) fn selects(&self, graph: &str) -> bool {
        self.graph.as_deref().is_none_or(|id| id == graph)
    }

    fn parse(text: &str) -> Option<Self> {
        let (graph, trigger) = match text.split_once('@') {
            Some((graph, trigger)) => (graph, trigger),
            None if matches!(text, "nan" | "mismatch") => ("all", text),
            None => (text, "1"),
        };
        let trigger = match trigger {
            "nan" => Trigger::Nan,
            "mismatch" => Trigger::Mismatch,
            number => Trigger::Execution(number.parse().ok().filter(|number| *number > 0)?),
        };
        let is_id = graph.len() == 16 && graph.bytes().all(|byte| byte.is_ascii_hexdigit());
        match graph {
            "all" => Some(DataRequest { graph: None, trigger }),
            id => is_id.then(|| DataRequest { graph: Some(id.to_ascii_lowercase()), trigger }),
        }
    }
}

pub(super) fn data() -> Result<Vec<DataRequest>, String> {
    requests(&variable(DATA_VARIABLE).unwrap_or_default())
}

fn requests(value: &OsStr) -> Result<Vec<DataRequest>, String> {
    if value.is_empty() {
        return Ok(Vec::new());
    }
    let parse = |text: &str| {
        DataRequest::parse(text.trim()).ok_or_else(|| {
            format!(
                "{DATA_VARIABLE} contains {text:?}: expected nan, mismatch, or the 16 digits of a graph or all, \
                 optionally with @ and a number, nan or mismatch"
            )
        })
    };
    value.to_string_lossy().split(',').map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_graphs_and_triggers() {
        let id = "06583499f102f08b";
        for (text, graph, trigger) in [
            ("all", None, Trigger::Execution(1)),
            ("all@7", None, Trigger::Execution(7)),
            ("nan", None, Trigger::Nan),
            ("mismatch", None, Trigger::Mismatch),
            (id, Some(id), Trigger::Execution(1)),
            ("06583499F102F08B@nan", Some(id), Trigger::Nan),
        ] {
            assert_eq!(
                DataRequest::parse(text),
                Some(DataRequest { graph: graph.map(str::to_owned), trigger }),
                "{text}"
            );
        }
        for text in ["none", "0658", "all@", "all@0", "all@-1", "all@x", "@nan", "nan@nan", "1", "all@nan@1"] {
            assert_eq!(DataRequest::parse(text), None, "{text}");
        }
        let check = |value: &str| requests(value.as_ref()).map(drop);
        assert_eq!((check(""), check("all, nan")), (Ok(()), Ok(())));
        for value in [",", " ", "all,", ",all", "all,,nan", "all;nan"] {
            assert!(check(value).unwrap_err().contains(DATA_VARIABLE), "{value}");
        }
    }
}

//! The options of the layer, from the environment or from the program.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::configured::{configured_in_code, variable};

/// The environment variable with the name of the capture. The first `%i` is replaced by the process ID.
pub const VARIABLE: &str = "CUDNN_CAPTURE";

/// The environment variable that requests values of tensors. Requests are separated by commas. Each is `all` or the id
/// of a graph, optionally followed by `@` and the number of an execution.
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

/// A request for the tensors of an execution.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DataRequest {
    /// The id of the graph, or `None` for all graphs.
    graph: Option<String>,
    /// The number of the execution, from 1.
    execution: u64,
}

impl DataRequest {
    pub(super) fn selects(&self, graph: &str, execution: u64) -> bool {
        self.execution == execution && self.graph.as_deref().is_none_or(|id| id == graph)
    }

    fn parse(text: &str) -> Option<Self> {
        let (graph, execution) = text.split_once('@').unwrap_or((text, "1"));
        let execution = execution.parse().ok().filter(|number| *number > 0)?;
        let graph = match graph {
            "all" => None,
            id if id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => Some(id.to_ascii_lowercase()),
            _ => return None,
        };
        Some(DataRequest { graph, execution })
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
                "{DATA_VARIABLE} contains {text:?}: expected the 16 digits of a graph or all, optionally with @ and a \
                 number"
            )
        })
    };
    value.to_string_lossy().split(',').map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_graphs_and_executions() {
        let id = "06583499f102f08b";
        for (text, graph, execution) in
            [("all", None, 1), ("all@7", None, 7), (id, Some(id), 1), ("06583499F102F08B@2", Some(id), 2)]
        {
            let graph = graph.map(str::to_owned);
            assert_eq!(DataRequest::parse(text), Some(DataRequest { graph, execution }), "{text}");
        }
        for text in ["none", "0658", "all@", "all@0", "all@-1", "all@x", "@1", "nan", "1", "all@1@1", "allx", "all@nan"]
        {
            assert_eq!(DataRequest::parse(text), None, "{text}");
        }
        let check = |value: &str| requests(value.as_ref()).map(drop);
        assert_eq!((check(""), check("all, all@2")), (Ok(()), Ok(())));
        for value in [",", " ", "all,", ",all", "all,,all", "all;all"] {
            assert!(check(value).unwrap_err().contains(DATA_VARIABLE), "{value}");
        }
    }
}

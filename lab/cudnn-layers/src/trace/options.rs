//! The options of the trace, from the environment or from the program.

use std::ffi::OsString;
use std::path::PathBuf;

use cudnn_store::plans::parse_size;

use crate::configured::{configured_in_code, variable};
use crate::report::Destination;

/// The default maximum size of a file. About 20,000 graphs fill it.
const DEFAULT_LIMIT: u64 = 256 << 20;

/// Options of the trace. The [guide](https://docs.rs/cudnn-layers) shows examples of all outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// `CUDNN_TRACE`: the file with Chrome trace events. The first `%i` is replaced by the process ID.
    pub chrome: Option<PathBuf>,
    /// `CUDNN_TRACE_LINES`: the destination of a line for each call.
    pub lines: Option<Destination>,
    /// `CUDNN_TRACE_LIMIT`: the maximum number of bytes that a process writes to each of these files, such as `512M` or
    /// `2G`. The default is 256 MiB.
    pub limit: Option<u64>,
    /// `CUDNN_TRACE_SUMMARY`: the destination of a summary when the process exits.
    pub summary: Option<Destination>,
    /// `CUDNN_TRACE_ARGUMENTS=0`: omits the arguments of calls.
    pub without_arguments: bool,
    /// `NVTX_INJECTION64_PATH`: the library that receives NVTX ranges. Tools such as Nsight Systems set this variable.
    pub nvtx: Option<PathBuf>,
}

configured_in_code!(Options);

impl Options {
    pub(super) fn chosen() -> Result<Options, String> {
        let mut options = configured().map_or_else(|| Options::from_variables(variable), Ok)?;
        let has_output = options.chrome.is_some() || options.lines.is_some() || options.nvtx.is_some();
        if !has_output && options.summary.is_none() {
            options.summary = Some(Destination::Stderr);
        }
        Ok(options)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Options, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let size = |value: OsString| parse_size(&value).ok_or(format!("CUDNN_TRACE_LIMIT={value:?} is not a size"));
        Ok(Options {
            chrome: set("CUDNN_TRACE").map(PathBuf::from),
            limit: set("CUDNN_TRACE_LIMIT").map(size).transpose()?,
            lines: set("CUDNN_TRACE_LINES").map(|value| Destination::parse(&value)),
            summary: set("CUDNN_TRACE_SUMMARY").map(|value| Destination::parse(&value)),
            without_arguments: set("CUDNN_TRACE_ARGUMENTS").is_some_and(|value| value == "0"),
            nvtx: set("NVTX_INJECTION64_PATH").map(PathBuf::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> Result<Options, String> {
        Options::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn files_have_a_limit_even_if_the_user_chooses_none() {
        let limit = |variables: &[(&str, &str)]| options(variables).map(|options| options.limit());
        assert_eq!((limit(&[]), limit(&[("CUDNN_TRACE_LIMIT", "1G")])), (Ok(256 << 20), Ok(1 << 30)));
    }

    #[test]
    fn each_variable_chooses_an_output() {
        let all = options(&[
            ("CUDNN_TRACE", "a.json"),
            ("CUDNN_TRACE_LIMIT", "2M"),
            ("CUDNN_TRACE_LINES", "stderr"),
            ("CUDNN_TRACE_SUMMARY", "b.txt"),
            ("CUDNN_TRACE_ARGUMENTS", "0"),
        ]);
        let expected = Options {
            chrome: Some("a.json".into()),
            limit: Some(2 << 20),
            lines: Some(Destination::Stderr),
            summary: Some(Destination::File("b.txt".into())),
            without_arguments: true,
            nvtx: None,
        };
        assert_eq!(all, Ok(expected));
        assert_eq!(options(&[("CUDNN_TRACE", "")]), Ok(Options::default()));
        let reason = options(&[("CUDNN_TRACE_LIMIT", "lots")]);
        assert_eq!(reason, Err("CUDNN_TRACE_LIMIT=\"lots\" is not a size".into()));
    }
}

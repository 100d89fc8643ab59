//! What the trace writes, and where to: chosen by the environment or by the program. Opens nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use cudnn_os::environment::is_secure_execution;
use cudnn_plan_store::parse_size;

use crate::report::Destination;

/// What the trace writes. See the [guide](https://docs.rs/cudnn-layers) for what each looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// `CUDNN_TRACE`: the file of Chrome trace events. The first `%i` in its name becomes the number of the process.
    pub chrome: Option<PathBuf>,
    /// `CUDNN_TRACE_LIMIT`: the bytes at which that file ends, such as `512M` or `2G`. Without it the file grows as
    /// long as the program runs.
    pub chrome_limit: Option<u64>,
    /// `CUDNN_TRACE_LINES`: a line for each call.
    pub lines: Option<Destination>,
    /// `CUDNN_TRACE_SUMMARY`: a summary when the process exits.
    pub summary: Option<Destination>,
    /// `CUDNN_TRACE_ARGUMENTS=0`: records do not have the arguments.
    pub without_arguments: bool,
    /// `CUDNN_TRACE_GPU=1`: adds the time on the device.
    pub gpu: bool,
    /// `NVTX_INJECTION64_PATH`, which tools such as Nsight Systems set: the library that gets ranges of NVTX.
    pub nvtx: Option<PathBuf>,
}

static CHOSEN: Mutex<Option<Options>> = Mutex::new(None);

/// Chooses what the layer writes when the program adds it, in place of what the environment chooses. It counts if it is
/// called before the layer begins.
pub fn configure(options: Options) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(options);
}

impl Options {
    /// What the program has chosen, or what the environment does.
    pub(super) fn chosen() -> Result<Options, String> {
        let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut options = chosen.map_or_else(
            || {
                // The loader reads no variable then, but the program may have added the layer itself.
                let is_ignored = is_secure_execution();
                Options::from_variables(|name| std::env::var_os(name).filter(|_| !is_ignored))
            },
            Ok,
        )?;
        let has_output = options.chrome.is_some() || options.lines.is_some() || options.nvtx.is_some();
        if !has_output && options.summary.is_none() {
            options.summary = Some(Destination::Stderr);
        }
        Ok(options)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Options, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let size = |value: OsString| parse_size(&value).ok_or(format!("CUDNN_TRACE_LIMIT={value:?} is not a size"));
        Ok(Options {
            chrome: set("CUDNN_TRACE").map(PathBuf::from),
            chrome_limit: set("CUDNN_TRACE_LIMIT").map(size).transpose()?,
            lines: set("CUDNN_TRACE_LINES").map(|value| Destination::parse(&value)),
            summary: set("CUDNN_TRACE_SUMMARY").map(|value| Destination::parse(&value)),
            without_arguments: set("CUDNN_TRACE_ARGUMENTS").is_some_and(|value| value == "0"),
            gpu: set("CUDNN_TRACE_GPU").is_some_and(|value| value != "0"),
            nvtx: set("NVTX_INJECTION64_PATH").map(PathBuf::from),
        })
    }
}

/// The name with the process's number before its extension: for the second process that would have the same.
pub(super) fn with_number(name: &Path, process: u32) -> PathBuf {
    let extension = name.extension().map(|extension| [OsStr::new("."), extension].join(OsStr::new("")));
    let mut file_name = name.file_stem().unwrap_or_default().to_owned();
    file_name.push(format!(".{process}"));
    file_name.push(extension.unwrap_or_default());
    name.with_file_name(file_name)
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
    fn each_variable_chooses_an_output() {
        let all = options(&[
            ("CUDNN_TRACE", "a.json"),
            ("CUDNN_TRACE_LIMIT", "2M"),
            ("CUDNN_TRACE_LINES", "stderr"),
            ("CUDNN_TRACE_SUMMARY", "b.txt"),
            ("CUDNN_TRACE_ARGUMENTS", "0"),
            ("CUDNN_TRACE_GPU", "1"),
        ]);
        let expected = Options {
            chrome: Some("a.json".into()),
            chrome_limit: Some(2 << 20),
            lines: Some(Destination::Stderr),
            summary: Some(Destination::File("b.txt".into())),
            without_arguments: true,
            gpu: true,
            nvtx: None,
        };
        assert_eq!(all, Ok(expected));
        assert_eq!(options(&[("CUDNN_TRACE", ""), ("CUDNN_TRACE_GPU", "0")]), Ok(Options::default()));
        let reason = options(&[("CUDNN_TRACE_LIMIT", "lots")]);
        assert_eq!(reason, Err("CUDNN_TRACE_LIMIT=\"lots\" is not a size".into()));
    }

    #[test]
    fn a_second_name_has_the_number_of_the_process() {
        assert_eq!(with_number(Path::new("/x.y/a.json"), 7), Path::new("/x.y/a.7.json"));
        assert_eq!(with_number(Path::new("/x.y/a"), 7), Path::new("/x.y/a.7"));
    }
}

//! Refuses to use one file for two outputs of a program, because one would replace the other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_probe::canonicalize;
use cudnn_rules::refusal::Refusal;

pub(super) const TRACE_VARIABLE: &str = "CUDNN_TRACE";
pub(super) const CAPTURE_VARIABLE: &str = "CUDNN_CAPTURE";

struct Destination {
    variable: &'static str,
    option: Option<&'static str>,
    /// The layer that writes the output. `None` for cuDNN's log.
    layer: Option<&'static str>,
    /// Whether the output replaces the file. Otherwise it is appended, so several can share a file.
    replaces: bool,
}

const fn appended(variable: &'static str, layer: &'static str) -> Destination {
    Destination { variable, option: None, layer: Some(layer), replaces: false }
}

const DESTINATIONS: [Destination; 8] = [
    Destination { variable: TRACE_VARIABLE, option: Some("--trace"), layer: Some("trace"), replaces: true },
    Destination { variable: CAPTURE_VARIABLE, option: Some("--capture"), layer: Some("capture"), replaces: true },
    Destination { variable: "CUDNN_LOGDEST_DBG", option: None, layer: None, replaces: true },
    appended("CUDNN_TRACE_LINES", "trace"),
    appended("CUDNN_TRACE_SUMMARY", "trace"),
    appended("CUDNN_EXPLAIN_OUTPUT", "explain"),
    appended("CUDNN_PLANS_SUMMARY", "plans"),
    appended("CUDNN_VALIDATE", "validate"),
];

/// Checks that no output of these layers replaces another. `variables` are set by options, and override the
/// environment.
pub(super) fn refuse_shared(layers: &[(String, PathBuf)], variables: &[(&str, OsString)]) -> Result<(), Refusal> {
    let is_on = |one: &&Destination| one.layer.is_none_or(|layer| layers.iter().any(|(name, _)| name == layer));
    let file_of = |one: &'static Destination| {
        let set = variables.iter().find(|(name, _)| *name == one.variable).map(|(_, value)| value.clone());
        let name = one.option.filter(|_| set.is_some()).unwrap_or(one.variable);
        let value = set.or_else(|| std::env::var_os(one.variable))?;
        let is_stream = ["", "stdout", "stderr", "NULL"].iter().any(|stream| value == *stream);
        (!is_stream).then(|| (one, name, real(Path::new(&value))))
    };
    let files: Vec<_> = DESTINATIONS.iter().filter(is_on).filter_map(file_of).collect();
    for (index, (_, name, file)) in files.iter().enumerate().filter(|(_, (one, ..))| one.replaces) {
        if let Some((_, other, _)) = files.iter().skip(index + 1).find(|(.., other)| other == file) {
            let text = format!("{name} and {other} name the same file, {}", file.printable());
            return Err(Refusal::new(text).help("name two files"));
        }
    }
    Ok(())
}

/// Resolves links in the path of a file that may be missing.
fn real(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let in_dir = || Some(canonicalize(file.parent()?).ok()?.join(file.file_name()?));
    canonicalize(&file).ok().or_else(in_dir).unwrap_or(file)
}

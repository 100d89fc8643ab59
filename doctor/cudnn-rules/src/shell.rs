//! Formats shell lines for pasting, quoted by the rules of cudnn-probe. On Windows they are for PowerShell, unless the
//! user selects another shell for `env`.

use cudnn_cli::programs::doctor;
use cudnn_cli::quoting::quoted;
use cudnn_cli::shell::{SEPARATOR, check_searchable, set_variable, unset_variable};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use cudnn_os::IS_WINDOWS;
use cudnn_os::files::{bytes_of, path_from_bytes};
use cudnn_probe::{Os, facts};

/// Quotes a path as one argument.
pub fn quoted_path(path: &Path) -> String {
    quoted(path)
}

/// Returns the command that checks the environment at this root.
pub fn command_for_environment(root: &Path) -> String {
    format!("{} check --python {}", doctor(), quoted_path(root))
}

/// Returns the line that makes a shell use the cuDNN in this directory.
///
/// # Errors
/// The loader's search path must not contain the directory. The error is advice.
pub fn use_dir(dir: &Path) -> Result<String, String> {
    check_searchable(dir)?;
    let (doctor, dir) = (doctor(), quoted_path(dir));
    Ok(match Os::HOST {
        Os::Windows => format!("{doctor} env --shell powershell {dir} | Out-String | Invoke-Expression"),
        _ => format!("eval \"$({doctor} env {dir})\""),
    })
}

pub(crate) fn without_entries(name: &str, entries: &[OsString]) -> String {
    match kept_entries(name, &facts::variable(name).unwrap_or_default(), entries) {
        kept if kept.is_empty() => unset_variable(name),
        kept => set_variable(name, kept),
    }
}

/// Returns the value of a list variable without these entries.
pub fn kept_entries(name: &str, value: &OsStr, entries: &[OsString]) -> OsString {
    let kept: Vec<OsString> = split_list(name, value).into_iter().filter(|entry| !entries.contains(entry)).collect();
    kept.join(OsStr::new(SEPARATOR.encode_utf8(&mut [0; 4])))
}

/// Splits a list variable into entries. ld.so also splits `LD_LIBRARY_PATH` at semicolons, and `LD_PRELOAD` at spaces.
pub fn split_list(name: &str, value: &OsStr) -> Vec<OsString> {
    match name {
        "LD_LIBRARY_PATH" => split_search_path(value),
        "LD_PRELOAD" => {
            let value = bytes_of(value);
            let entries = value.split(|byte| b" :".contains(byte)).filter(|entry| !entry.is_empty());
            entries.map(|entry| path_from_bytes(entry).into()).collect()
        }
        _ => std::env::split_paths(value).map(OsString::from).collect(),
    }
}

pub(crate) fn split_search_path(value: &OsStr) -> Vec<OsString> {
    if IS_WINDOWS {
        return std::env::split_paths(value).map(OsString::from).collect();
    }
    let value = bytes_of(value);
    value.split(|byte| b":;".contains(byte)).map(|element| path_from_bytes(element).into()).collect()
}

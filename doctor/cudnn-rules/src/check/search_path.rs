//! Checks the entries of the search path variable.

use cudnn_cli::escape::Printable;
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_probe::facts::{self, PathFacts};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use cudnn_probe::Os;

use super::finding::{Finding, RELATIVE_PATH};
use crate::shell::split_search_path;
use crate::system::{LOADER, choose};

pub(super) struct SearchPath {
    value: Option<OsString>,
    /// A directory with a separator in the name, which ld.so splits into two directories.
    split_dir: Option<String>,
}

impl SearchPath {
    pub(super) fn read() -> SearchPath {
        let value = facts::variable(SEARCH_PATH);
        let is_list = Os::HOST != Os::Windows;
        let split_dir = value.as_deref().filter(|_| is_list).and_then(OsStr::to_str).and_then(split_dir);
        SearchPath { value, split_dir }
    }

    /// C027: relative directories. The system resolves them from the program's working directory, while this project's
    /// search ignores them.
    pub(super) fn finding(&self) -> Option<Finding> {
        let Some(dir) = &self.split_dir else { return relative_dirs(self.value.as_deref()?) };
        let message = format!("LD_LIBRARY_PATH contains {dir}, which ld.so splits into two directories");
        let help = "make a symbolic link to it, without a colon or semicolon in its name, and name the link there";
        let note = "a colon or a semicolon separates directories there, always";
        Some(Finding::new(RELATIVE_PATH, message).note(note).remedy(help))
    }
}

fn relative_dirs(path: &OsStr) -> Option<Finding> {
    let is_relative = |dir: &&OsString| match Os::HOST {
        // Windows ignores empty elements.
        Os::Windows => !dir.is_empty() && Path::new(dir).is_relative(),
        _ => !dir.as_encoded_bytes().starts_with(b"/") && !dir.as_encoded_bytes().starts_with(b"$"),
    };
    // ld.so ignores an empty variable, but treats an empty entry as the working directory.
    let dirs = if path.is_empty() { Vec::new() } else { split_search_path(path) };
    let describe =
        |dir: &OsString| if dir.is_empty() { "an empty element".to_owned() } else { Path::new(dir).printable() };
    let mut relative: Vec<String> = dirs.iter().filter(is_relative).map(describe).collect();
    relative.dedup();
    let dirs = relative.join(", ");
    let what = match relative.len() {
        0 => return None,
        1 => format!("{SEARCH_PATH} contains a relative directory: {dirs}"),
        _ => format!("{SEARCH_PATH} contains relative directories: {dirs}"),
    };
    let help = "write the full path of the directory";
    let note = "resolves it from the working directory of the program; this project's search ignores it";
    Some(
        Finding::new(RELATIVE_PATH, what)
            .note(format!("{LOADER} {note}"))
            .remedy(format!("{help}{}", choose(", and no colon before the first or after the last one", ""))),
    )
}

fn split_dir(path: &str) -> Option<String> {
    let ends = || path.match_indices([':', ';']).map(|(at, _)| at).chain([path.len()]);
    let starts = std::iter::once(0).chain(ends().map(|at| at + 1));
    let mut dirs = starts.zip(ends().skip(1)).filter_map(|(start, end)| path.get(start..end));
    let is_dir = |dir: &str| dir.starts_with('/') && Path::new(dir).leads_to_dir();
    dirs.find(|dir| is_dir(dir) && !dir.split([':', ';']).all(is_dir)).map(str::to_owned)
}

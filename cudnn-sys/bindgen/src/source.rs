//! The generator's input: the headers, and what to write about them.

use std::path::{Path, PathBuf};

/// The headers to generate from, and how the generated files name them.
#[derive(Clone, Debug)]
pub struct Source {
    /// The directory with `cudnn_graph.h` and cuDNN's other headers.
    pub cudnn_include: PathBuf,
    /// The headers, as the first line of each generated file names them.
    pub description: String,
    /// The command, as the first line of each generated file names it.
    pub command: String,
    /// The release (`9.29.0`) that brought the names for which neither the headers nor the annotations state one.
    /// Without it, such a name is an error.
    pub unknown_since: Option<String>,
}

/// The release of the headers in a directory, from `cudnn_version.h`: `9.28.0`.
#[must_use]
pub fn version(include: &Path) -> Option<String> {
    let text = std::fs::read_to_string(include.join("cudnn_version.h")).ok()?;
    let number = |name: &str| {
        let split = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(split).find_map(|line| match line.as_slice() {
            [define, found, value, ..] if define == "#define" && found == name => value.parse::<u32>().ok(),
            _ => None,
        })
    };
    let (major, minor, patch) = (number("CUDNN_MAJOR")?, number("CUDNN_MINOR")?, number("CUDNN_PATCHLEVEL")?);
    Some(format!("{major}.{minor}.{patch}"))
}

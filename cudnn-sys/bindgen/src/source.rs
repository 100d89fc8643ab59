//! The input of the generator: the headers and their description.

use std::path::{Path, PathBuf};

/// The headers to generate from, and how to describe them in the generated files.
#[derive(Clone, Debug)]
pub struct Source {
    /// The directory of `cudnn_graph.h` and cuDNN's other headers.
    pub cudnn_include: PathBuf,
    /// A description of the headers, for the first line of each generated file.
    pub description: String,
    /// The command, for the first line of each generated file.
    pub command: String,
    /// The release to use for names without a date in the headers or annotations, such as `9.29.0`. If this is `None`,
    /// such a name is an error.
    pub unknown_since: Option<String>,
}

/// Returns the release of the headers in a directory from `cudnn_version.h`, such as `9.28.0`.
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

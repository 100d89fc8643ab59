//! Recognizes pyenv or asdf scripts that replace `python3` on `PATH`. The selected Python is determined from files by
//! the rules of these tools, without running any program.

use cudnn_probe::facts::PathFacts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::{canonicalize, read_bounded};

use crate::packages::entries;

/// The number of bytes read from a script or version file.
const MAX_LEN: u64 = 64 << 10;

/// A version manager that replaces programs by scripts.
struct Tool {
    name: &'static str,
    /// The variable that selects a version.
    variable: &'static str,
    /// The file that selects a version, in the working directory or a parent.
    file: &'static str,
    /// The keyword before the versions on a line of that file.
    keyword: Option<&'static str>,
    /// The directory of installed versions, relative to the root of the tool.
    versions: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool { name: "pyenv", variable: "PYENV_VERSION", file: ".python-version", keyword: None, versions: "versions" },
    Tool {
        name: "asdf",
        variable: "ASDF_PYTHON_VERSION",
        file: ".tool-versions",
        keyword: Some("python"),
        versions: "installs/python",
    },
];

/// Tools whose shims are links to the tool itself. Their version selection is not modeled here.
const OTHER_TOOLS: [&str; 2] = ["mise", "rtx"];

/// A script or link that replaces `python3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonShim {
    pub(crate) file: PathBuf,
    /// The name of the tool, such as `pyenv`.
    pub(crate) tool: &'static str,
    /// The directory of the `python3` that it starts, if known.
    pub(crate) bin: Option<PathBuf>,
}

/// The variables and working directory that the tools use.
pub(crate) struct ShimEnvironment<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(crate) working_dir: Option<PathBuf>,
}

/// Returns the first `python3` on `PATH` if it is a shim.
pub(crate) fn find(environment: &ShimEnvironment<'_>) -> Option<PythonShim> {
    let path = (environment.variable)("PATH")?;
    let mut dirs = std::env::split_paths(&path).filter(|dir| dir.is_absolute() && dir.join("python3").target_exists());
    let file = dirs.next()?.join("python3");
    let Some(tool) = tool_of(&file) else {
        let program = canonicalize(&file).ok()?;
        let tool = OTHER_TOOLS.into_iter().find(|tool| program.file_name().is_some_and(|name| name == *tool))?;
        return Some(PythonShim { file, tool, bin: None });
    };
    let root = file.parent()?.parent()?;
    // Some of the selected versions may not include this program.
    let bin = selected(tool, root, environment).iter().find_map(|version| match version.as_str() {
        // Use the next python3 on PATH.
        "system" => dirs.find(|dir| tool_of(&dir.join("python3")).is_none()),
        version => bin_of(version, &root.join(tool.versions)),
    });
    Some(PythonShim { file, tool: tool.name, bin })
}

/// Returns the tool that installed this script.
fn tool_of(file: &Path) -> Option<&'static Tool> {
    file.parent().filter(|dir| dir.ends_with("shims"))?;
    let text = read(file).filter(|text| text.starts_with("#!"))?;
    TOOLS.iter().find(|tool| text.contains(tool.name))
}

/// Returns the selected versions in order of preference.
fn selected(tool: &Tool, root: &Path, environment: &ShimEnvironment<'_>) -> Vec<String> {
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    if let Some(value) = (environment.variable)(tool.variable).filter(|value| !value.is_empty()) {
        return words(&value.to_string_lossy().replace(':', " "));
    }
    let in_file = |file: PathBuf| -> Option<Vec<String>> {
        let text = read(&file)?;
        let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let versions = match tool.keyword {
            None => lines.flat_map(words).collect(),
            Some(keyword) => {
                lines.find_map(|line| Some(words(line.strip_prefix(keyword)?.strip_prefix([' ', '\t'])?)))?
            }
        };
        (!versions.is_empty()).then_some(versions)
    };
    let above = environment.working_dir.iter().flat_map(|dir| dir.ancestors()).map(|dir| dir.join(tool.file));
    let home = (environment.variable)("HOME").map(|home| Path::new(&home).join(tool.file));
    let global = if tool.keyword.is_some() { home } else { Some(root.join("version")) };
    above.chain(global).find_map(in_file).unwrap_or_else(|| vec!["system".into()])
}

/// Returns a path such as `ROOT/versions/3.11.7/bin`. For `3.11`, selects the newest 3.11 release.
fn bin_of(version: &str, versions: &Path) -> Option<PathBuf> {
    let name = version.strip_prefix("python-").unwrap_or(version);
    // Reject a slash, because the path could leave the directory.
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return None;
    }
    let bin = |dir: PathBuf| Some(dir.join("bin")).filter(|bin| bin.join("python3").target_exists());
    let patch = |dir: &PathBuf| dir.file_name()?.to_str()?.strip_prefix(name)?.strip_prefix('.')?.parse::<u32>().ok();
    let newest = || entries(versions).filter(|dir| patch(dir).is_some()).max_by_key(patch);
    bin(versions.join(name)).or_else(|| bin(newest()?))
}

fn read(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&read_bounded(file, MAX_LEN).ok()?).into_owned())
}

#[cfg(all(test, unix))]
mod tests;

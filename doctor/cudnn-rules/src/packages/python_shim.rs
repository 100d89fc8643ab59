//! Recognizes pyenv or asdf scripts that replace `python3` on `PATH`, and determines the selected Python from files by
//! the rules of these tools.

use std::path::{Path, PathBuf};

use cudnn_probe::facts::{self, PathFacts};
use cudnn_probe::{canonicalize, read_bounded};

use super::dirs::entries;

const PYTHON: &str = "python3";

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PythonShim {
    pub(crate) file: PathBuf,
    pub(crate) tool: &'static str,
    /// The directory of the `python3` that it starts, if known.
    pub(crate) bin: Option<PathBuf>,
}

pub(crate) fn find(dirs: impl IntoIterator<Item = PathBuf>) -> Option<PythonShim> {
    let mut dirs = dirs.into_iter().filter(|dir| dir.is_absolute() && dir.join(PYTHON).target_exists());
    let file = dirs.next()?.join(PYTHON);
    let Some(tool) = tool_of(&file) else {
        let program = canonicalize(&file).ok()?;
        let tool = OTHER_TOOLS.into_iter().find(|tool| program.file_name().is_some_and(|name| name == *tool))?;
        return Some(PythonShim { file, tool, bin: None });
    };
    let root = file.parent()?.parent()?;
    // Some of the selected versions may not include this program.
    let bin = selected(tool, root).iter().find_map(|version| match version.as_str() {
        // Use the next python3 on PATH.
        "system" => dirs.find(|dir| tool_of(&dir.join(PYTHON)).is_none()),
        version => bin_of(version, &root.join(tool.versions)),
    });
    Some(PythonShim { file, tool: tool.name, bin })
}

/// Returns the programs that a shim may start: first of the selected versions, then of all others from the newest on.
pub(super) fn programs(shim: &Path) -> Vec<PathBuf> {
    let Some((tool, dir, name)) =
        tool_of(shim).and_then(|tool| Some((tool, shim.parent()?.parent()?, shim.file_name()?)))
    else {
        return Vec::new();
    };
    let versions = dir.join(tool.versions);
    let selected = selected(tool, dir).into_iter().filter_map(|version| bin_of(&version, &versions));
    let others = numbered(&versions, &[]).into_iter().rev().map(|version| version.join("bin"));
    selected.chain(others).map(|bin| bin.join(name)).collect()
}

fn tool_of(file: &Path) -> Option<&'static Tool> {
    file.parent().filter(|dir| dir.ends_with("shims"))?;
    let text = read(file).filter(|text| text.starts_with("#!"))?;
    TOOLS.iter().find(|tool| text.contains(tool.name))
}

fn selected(tool: &Tool, root: &Path) -> Vec<String> {
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    if let Some(value) = facts::variable(tool.variable).filter(|value| !value.is_empty()) {
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
    let working_dir = facts::current_dir().ok();
    let above = working_dir.iter().flat_map(|dir| dir.ancestors()).map(|dir| dir.join(tool.file));
    let home = facts::variable("HOME").map(|home| Path::new(&home).join(tool.file));
    let global = if tool.keyword.is_some() { home } else { Some(root.join("version")) };
    above.chain(global).find_map(in_file).unwrap_or_else(|| vec!["system".into()])
}

/// Returns a path such as `ROOT/versions/3.11.7/bin`. For `3.11` and `3`, selects the newest release that starts with
/// it.
fn bin_of(version: &str, versions: &Path) -> Option<PathBuf> {
    let name = version.strip_prefix("python-").unwrap_or(version);
    // Reject a slash, because the path could leave the directory.
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return None;
    }
    let newest = numbers(name).and_then(|start| numbered(versions, &start).pop());
    let dirs = [Some(versions.join(name)), newest].into_iter().flatten();
    dirs.map(|dir| dir.join("bin")).find(|bin| bin.join(PYTHON).target_exists())
}

/// Returns the installed versions that start with these numbers, from the oldest to the newest.
fn numbered(versions: &Path, start: &[u32]) -> Vec<PathBuf> {
    let of_dir = |dir: &PathBuf| numbers(dir.file_name()?.to_str()?).filter(|numbers| numbers.starts_with(start));
    let mut dirs: Vec<PathBuf> = entries(versions).filter(|dir| of_dir(dir).is_some()).collect();
    dirs.sort_by_cached_key(of_dir);
    dirs
}

/// Returns 3, 11 and 7 for `3.11.7`.
fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

fn read(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&read_bounded(file, MAX_LEN).ok()?).into_owned())
}

#[cfg(all(test, unix))]
mod tests;

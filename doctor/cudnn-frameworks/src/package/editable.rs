//! Finds the modules of editable packages (`pip install --editable`), if files or setuptools' table in a finder list
//! them.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::files::read_text;

/// The maximum size of files, and the maximum number of entries in a finder's table.
const MAX_LEN: u64 = 256 << 10;
const MAX_MODULES: usize = 256;

/// `{"dir_info": {"editable": true}, "url": "file:///home/me/pytorch"}`.
#[derive(Deserialize)]
struct DirectUrl {
    #[serde(default)]
    dir_info: DirInfo,
    #[serde(default)]
    url: String,
}

#[derive(Default, Deserialize)]
struct DirInfo {
    #[serde(default)]
    editable: bool,
}

/// Returns the directories with an editable package's modules, or `None` for other packages.
pub(super) fn source_dirs(import_dir: &Path, info_dir: &Path) -> Option<Vec<PathBuf>> {
    let text = read_text(&info_dir.join("direct_url.json"), MAX_LEN)?;
    let direct_url: DirectUrl = serde_json::from_str(&text).ok().filter(|url: &DirectUrl| url.dir_info.editable)?;
    let stem = info_dir.file_stem()?.to_str()?;
    let text = |name: String| read_text(&import_dir.join(name), MAX_LEN).unwrap_or_default();
    let lines = text(format!("__editable__.{stem}.pth"));
    let lines = lines.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with("import "));
    let mut source_dirs: Vec<PathBuf> =
        lines.map(|line| import_dir.join(line)).filter(|dir| dir.leads_to_dir()).collect();
    // Other files contain the directory of a percent-encoded URL.
    let source = direct_url.url.strip_prefix("file://").filter(|path| path.starts_with('/') && !path.contains('%'));
    source_dirs.extend(source.into_iter().flat_map(|source| [Path::new(source).join("src"), source.into()]));
    let finder = text(format!("__editable___{}_finder.py", stem.replace(['-', '.', '+'], "_")));
    source_dirs.extend(dirs_in_finder(&finder));
    Some(source_dirs)
}

/// Returns the module directories in setuptools' table, `MAPPING: dict[str, str] = {'torch':
/// '/home/me/pytorch/torch'}`.
fn dirs_in_finder(finder: &str) -> Vec<PathBuf> {
    let table = finder.lines().find_map(|line| line.strip_prefix("MAPPING")?.split_once('='));
    // Skip Python escape sequences.
    let table = table.map_or("", |(_, table)| table.trim()).strip_prefix('{').filter(|table| !table.contains('\\'));
    let texts: Vec<&str> = table.and_then(|table| table.strip_suffix('}')).unwrap_or_default().split('\'').collect();
    // Every second part is between quotes.
    let dirs = texts.chunks(4).filter_map(|entry| match entry {
        [_, module, _, dir] => Some(Path::new(dir)).filter(|dir| dir.is_absolute() && dir.ends_with(module)),
        _ => None,
    });
    dirs.filter_map(Path::parent).map(Path::to_owned).take(MAX_MODULES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_directories_are_read_from_finders() {
        let finder = "import sys\nMAPPING: dict[str, str] = {'torch': '/src/py torch/torch', 'functorch': '/src/functorch'}\n\
                      NAMESPACES: dict[str, list[str]] = {}\n";
        assert_eq!(dirs_in_finder(finder), [Path::new("/src/py torch"), Path::new("/src")]);
        for none in ["", "MAPPING = {}", "MAPPING = {'a': 'relative'}", "MAPPING = {'a': '\\x41'}", "MAPPING = {"] {
            assert_eq!(dirs_in_finder(none), [] as [&Path; 0], "{none}");
        }
    }
}

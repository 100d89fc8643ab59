//! The `.pth` files of an import directory: each line names a further directory. Lines of code (`import ...`) are not
//! run, and what they would add is not seen.

use std::path::{Path, PathBuf};

use cudnn_probe::read_bounded;

use crate::unreadable::Unreadable;

use super::MAX_ENTRIES;

/// The most `.pth` files of a directory, bytes of each, and lines with paths of all of an environment.
const MAX_FILES: usize = 256;
const MAX_LEN: u64 = 1 << 20;
const MAX_LINES: usize = 1_000;

/// The existing directories that the `.pth` files of a directory name, in Python's order. `lines` counts the paths.
pub(super) fn read(dir: &Path, lines: &mut usize, unreadable: &mut Vec<Unreadable>) -> Vec<PathBuf> {
    let names = std::fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".pth") && !name.starts_with('.')).collect();
    names.sort_unstable();
    if names.len() > MAX_FILES {
        unreadable.push(Unreadable::new(dir, format!("has more than {MAX_FILES} .pth files: the rest is not read")));
        names.truncate(MAX_FILES);
    }
    let mut found = Vec::new();
    for name in names {
        let file = dir.join(&name);
        let text = match read_bounded(&file, MAX_LEN) {
            Ok(text) => text,
            Err(error) => {
                unreadable.push(Unreadable::new(file, error.to_string()));
                continue;
            }
        };
        let text = String::from_utf8_lossy(&text);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim_end();
            let is_code = line.starts_with("import ") || line.starts_with("import\t");
            if line.trim_start().is_empty() || line.starts_with('#') || is_code {
                continue;
            }
            if *lines == MAX_LINES {
                let reason =
                    format!("is one of several .pth files with more than {MAX_LINES} lines: the rest is not read");
                unreadable.push(Unreadable::new(file, reason));
                return found;
            }
            *lines += 1;
            let named = dir.join(line);
            if named.is_dir() {
                found.push(named);
            }
        }
    }
    found
}

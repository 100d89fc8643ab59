//! The files of a package: by pattern, and small texts. Bounded, because a package may contain anything.

use std::path::{Path, PathBuf};

use cudnn_probe::read_bounded;

/// The most entries of a directory that are compared, and files that a pattern yields.
const MAX_ENTRIES: usize = 4096;
const MAX_FILES: usize = 32;
/// The longest text file that is read, in bytes. Those of the known frameworks are below 2 KB.
const MAX_TEXT_LEN: u64 = 256 << 10;

/// The files below a directory for a relative pattern, in alphabetical order. `*` stands for any characters in the name
/// of the file; the directories are names or `..`.
pub(crate) fn matching(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let (below, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let dir = below.split('/').fold(dir.to_owned(), |dir, part| match part {
        "" => dir,
        ".." => dir.parent().map(Path::to_owned).unwrap_or(dir),
        _ => dir.join(part),
    });
    if !name.contains('*') {
        return Some(dir.join(name)).filter(|file| file.is_file()).into_iter().collect();
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let is_match = |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(|file| fits(name, file));
    let mut files: Vec<PathBuf> = entries.filter(is_match).map(|entry| entry.path()).collect();
    files.sort();
    files.retain(|file| file.is_file());
    files.truncate(MAX_FILES);
    files
}

/// Whether a file name fits a pattern with `*`.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| name.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// The text of a small regular file.
pub(crate) fn read_text(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&read_bounded(file, MAX_TEXT_LEN).ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, expected) in [
            ("_C.*so", "_C.cpython-312-x86_64-linux-gnu.so", true),
            ("_C.*so", "_C.so", true),
            ("_C.*so", "_C", false),
            ("lib*-*.so*", "libctranslate2-bc15bf3f.so.4.5.0", true),
            ("lib*-*.so*", "libctranslate2.so.4", false),
            ("a*", "a", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}

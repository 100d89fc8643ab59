//! Reads the list of a package's files (`RECORD`).

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use cudnn_probe::facts::{self, Subject};
use cudnn_probe::read_bounded;
use memchr::{memchr, memmem, memrchr};

use crate::files::read_text;

/// The maximum number of bytes in a record (torch's has 1.5 MB), and of libraries and modules in a package.
const MAX_LEN: u64 = 32 << 20;
const MAX_LIBRARIES: usize = 4_000;
const MAX_MODULES: usize = 20_000;
/// The separators in records, some of which were written by Windows tools.
const SEPARATORS: [char; 2] = ['/', '\\'];

/// Returns the lines of a package's record that contain this text, with `/` as separator. Empty without a record.
pub(crate) fn lines_with(info_dir: &Path, text: &str) -> Vec<String> {
    facts::derive("lines of record", Subject::about(info_dir, text), || {
        let mut record = read_bounded(&info_dir.join("RECORD"), MAX_LEN).unwrap_or_default();
        if memchr(b'\\', &record).is_some() {
            record.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        }
        // Only a few lines of megabytes are wanted, so the rest is neither decoded nor split.
        let (mut lines, mut rest) = (Vec::new(), record.as_slice());
        while let Some(found) = memmem::find(rest, text.as_bytes()) {
            let (before, after) = rest.split_at(found);
            let start = memrchr(b'\n', before).map_or(0, |end| end + 1);
            let end = found + memchr(b'\n', after).unwrap_or(after.len());
            lines.push(String::from_utf8_lossy(rest.get(start..end).unwrap_or_default()).trim_end().to_owned());
            rest = rest.get(end..).unwrap_or_default();
        }
        lines
    })
}

/// Returns why pip cannot uninstall a package from pip or a similar tool, such as "has no RECORD". `None` if this user
/// lacks access to the record.
pub fn record_damage(info_dir: &Path) -> Option<String> {
    facts::derive("damage of record", info_dir, || {
        let bytes = match read_bounded(&info_dir.join("RECORD"), MAX_LEN) {
            Ok(bytes) => bytes,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::NotFound => Some("has no RECORD, the list of the package's files".to_owned()),
                    ErrorKind::PermissionDenied => None,
                    _ => Some(format!("has no readable RECORD: it {error}")),
                };
            }
        };
        let Ok(text) = String::from_utf8(bytes) else { return Some("has a RECORD that is not text".to_owned()) };
        // Python also ends a line at a carriage return, and pip fails on empty lines.
        let has_empty_line = text.contains("\r\r") || text.replace('\r', "").contains("\n\n");
        match text.lines().any(|line| parse(line).is_some()) {
            false => Some("has a RECORD without files".to_owned()),
            true => has_empty_line.then(|| "has a RECORD with empty lines, on which pip fails".to_owned()),
        }
    })
}

fn text(info_dir: &Path) -> String {
    read_text(&info_dir.join("RECORD"), MAX_LEN).unwrap_or_default()
}

/// Splits a line of a record, such as `torch/lib/libtorch.so,sha256=...,1234`, into path, hash and length. A path with
/// a comma has quotes.
pub(crate) fn parse(line: &str) -> Option<(&str, &str, &str)> {
    let (path, rest) = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",")?,
        None => line.split_once(',')?,
    };
    let (hash, len) = rest.split_once(',')?;
    Some((path, hash, len.trim_end()))
}

/// Returns the files of a package below the import directory, or `None` if the record is unreadable.
pub fn listed_files(info_dir: &Path) -> Option<Vec<PathBuf>> {
    let text = read_text(&info_dir.join("RECORD"), MAX_LEN)?.replace('\\', "/");
    Some(files(&text).map(PathBuf::from).collect())
}

/// Returns the files of a package below the import directory, with the recorded length and the sha256 hash in URL-safe
/// base64. Files without a length are skipped.
pub fn recorded_files(info_dir: &Path) -> Vec<(PathBuf, u64, Option<String>)> {
    let text = text(info_dir);
    let recorded =
        text.lines().filter_map(parse).filter(|(path, ..)| is_below(path)).filter_map(|(path, hash, len)| {
            Some((PathBuf::from(path), len.parse().ok()?, hash.strip_prefix("sha256=").map(str::to_owned)))
        });
    recorded.collect()
}

pub(crate) fn libraries(info_dir: &Path, import_dir: &Path) -> Vec<PathBuf> {
    facts::derive("libraries in record", info_dir, || {
        let text = text(info_dir);
        let paths = files(&text).filter(|path| is_library(path)).take(MAX_LIBRARIES);
        paths.map(|path| import_dir.join(path)).collect()
    })
}

/// Returns the modules and libraries of a package relative to the import directory. Skips tests, which are often
/// deleted to make images smaller.
pub(crate) fn modules(info_dir: &Path) -> Vec<PathBuf> {
    let text = text(info_dir);
    let is_of_tests = |name: &str| matches!(name, "test" | "tests" | "testing" | "_testing");
    let modules = files(&text).filter(|path| path.ends_with(".py") || is_library(path));
    let modules = modules.filter(|path| !path.split(SEPARATORS).any(is_of_tests));
    modules.take(MAX_MODULES).map(PathBuf::from).collect()
}

fn files(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(parse).map(|(path, ..)| path).filter(|path| is_below(path))
}

fn is_below(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|component| matches!(component, Component::Normal(_)))
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit(SEPARATORS).next().unwrap_or_default();
    name.ends_with(".so") || name.contains(".so.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_below_the_import_directory_count() {
        for (line, expected) in [
            ("torch/lib/libtorch.so,sha256=x,12", true),
            ("x.libs/libx-1234abcd.so.1.2,,", true),
            ("\"a,b.so\",,", true),
            ("torch/version.py,,", false),
            ("a.sock,,", false),
            ("../../../lib/x.so,,", false),
            ("/usr/lib/x.so,,", false),
            ("", false),
        ] {
            assert_eq!(files(line).any(is_library), expected, "{line}");
        }
        assert_eq!(parse("\"a,b.so\",sha256=x,12\r"), Some(("a,b.so", "sha256=x", "12")));
    }
}

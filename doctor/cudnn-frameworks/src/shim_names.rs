//! Finds names of cuDNN's shim in the data of programs.

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use cudnn_probe::facts::{self, PathFacts};

use crate::files::find_in_blocks;

/// The maximum number of names in a part of a file.
const MAX_NAMES: usize = 64;

const STEM: &[u8] = b"libcudnn.so";
/// The maximum length of a name with a version.
const MAX_NAME_LEN: usize = 32;
/// The maximum length of a path before a name.
const MAX_PATH_LEN: usize = 4096;

/// Returns the names of cuDNN's shim in these parts of a file: `libcudnn.so.9`, or the path of an existing file.
pub fn shim_names_in(file: &Path, parts: &[Range<u64>]) -> Vec<String> {
    facts::ask("names in program", file, || {
        let mut names = HashSet::new();
        if let Ok(file) = File::open(file) {
            for part in parts {
                // Names before a read error count.
                let _ = find_in_blocks(&file, part, MAX_NAME_LEN + MAX_PATH_LEN, |block, is_last| {
                    names.extend(in_block(block, is_last).take(MAX_NAMES));
                    (names.len() > MAX_NAMES).then_some(())
                });
            }
        }
        names.into_iter().collect()
    })
}

/// Returns the names in a block. Depending on the language, a zero byte or the next string follows. Names near the end
/// belong to the next block.
fn in_block(block: &[u8], is_last: bool) -> impl Iterator<Item = String> + '_ {
    let end = if is_last { block.len() } else { block.len().saturating_sub(MAX_NAME_LEN) };
    memchr::memmem::find_iter(block, STEM).take_while(move |at| *at < end).filter_map(|at| {
        let name = name(block.get(at..)?)?;
        Some(path(block.get(at.saturating_sub(MAX_PATH_LEN)..at)?, &name).unwrap_or(name))
    })
}

/// Returns the path of an existing file with this name, if a directory precedes it. Strings may lack a zero byte
/// between them, so the longest existing path counts.
fn path(before: &[u8], name: &str) -> Option<String> {
    let text = before.rsplit(|byte| *byte == 0).next().filter(|text| text.ends_with(b"/"))?;
    let starts = memchr::memchr_iter(b'/', text);
    let mut paths = starts.filter_map(|at| Some(format!("{}{name}", std::str::from_utf8(text.get(at..)?).ok()?)));
    paths.find(|path| Path::new(path).leads_to_file())
}

/// Returns the name at the start of this text. The program completes `libcudnn.so.%d`, which does not count.
fn name(text: &[u8]) -> Option<String> {
    let mut len = STEM.len();
    while let Some(after) = text.get(len..MAX_NAME_LEN.min(text.len())).and_then(|rest| rest.strip_prefix(b".")) {
        match after.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            // A sentence may end after a version.
            0 if len == STEM.len() => return None,
            0 => break,
            digits => len += 1 + digits,
        }
    }
    String::from_utf8(text.get(..len)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_after_its_version() {
        for (text, expected) in [
            ("libcudnn.so.9", Some("libcudnn.so.9")),
            ("libcudnn.so", Some("libcudnn.so")),
            ("libcudnn.so\0", Some("libcudnn.so")),
            ("libcudnn.so.9.1.0\0x", Some("libcudnn.so.9.1.0")),
            // Rust and Go store strings without separators.
            ("libcudnn.so.9libcudnn.so", Some("libcudnn.so.9")),
            ("libcudnn.so.9.", Some("libcudnn.so.9")),
            ("libcudnn.so.%d", None),
            ("libcudnn.so.", None),
        ] {
            assert_eq!(name(text.as_bytes()).as_deref(), expected, "{text}");
        }
        for offset in 0..40 {
            let block = [&vec![b'l'; offset][..], b"libcudnn.so.9\0libcudnn_ops.so.9"].concat();
            assert_eq!(in_block(&block, true).collect::<Vec<_>>(), ["libcudnn.so.9"], "{offset}");
        }
    }
}

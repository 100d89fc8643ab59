//! Finds names of cuDNN's shim in the data of programs. A program that opens the shim with dlopen contains the name,
//! unless it assembles the name at run time. A match is a hint, and no proof that the program opens the library.

use cudnn_probe::facts::{self, PathFacts};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::Object;
use cudnn_probe::parts_without_gpu_code;

use crate::escape::Printable;

/// The maximum number of bytes to read from all files, and of names to return.
const MAX_LEN: u64 = 512 << 20;
const MAX_NAMES: usize = 64;
const BLOCK_LEN: usize = 1 << 20;

const STEM: &[u8] = b"libcudnn.so";
/// The maximum length of a name with a version: `libcudnn.so.9.28.0` and a margin.
const MAX_NAME_LEN: usize = 32;
/// The maximum length of a path before a name.
const MAX_PATH_LEN: usize = 4096;

/// A name of cuDNN's shim that was found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name: `libcudnn.so.9`, or the path of an existing file.
    pub(crate) name: String,
    /// The file that contains it.
    pub(crate) file: PathBuf,
    /// The index of the file among the objects of a simulation.
    pub(crate) object: usize,
}

impl Named {
    /// Describes where the name was found.
    pub(crate) fn evidence(&self) -> String {
        let file = self.file.printable();
        format!("{file} opens {} itself, according to its read-only data, which is a hint and no proof", self.name)
    }
}

/// Returns the names in these objects, once per object, with versioned names first. Skips names that the object links
/// to, and cuDNN's own libraries.
pub(crate) fn names_in(objects: &[Object]) -> Vec<Named> {
    let mut left = MAX_LEN;
    let is_cudnn = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libcudnn"));
    let others = objects.iter().enumerate().filter(|(_, object)| !is_cudnn(&object.path));
    let found = others.flat_map(|(index, object)| {
        let names = names(&object.path, &mut left).into_iter().filter(|name| !object.needed().contains(name));
        names.map(move |name| Named { name, file: object.path.clone(), object: index })
    });
    found.take(MAX_NAMES).collect()
}

fn names(file: &Path, left: &mut u64) -> Vec<String> {
    let parts = parts_without_gpu_code(file).unwrap_or_default();
    let length: u64 = parts.iter().map(|part| part.end.saturating_sub(part.start)).sum();
    if length > *left {
        return Vec::new();
    }
    *left -= length;
    let mut names: Vec<String> = facts::ask("names in program", file, || {
        let mut names = HashSet::new();
        if let Ok(file) = File::open(file) {
            for part in parts {
                // Names found before a read error are kept.
                let _ = read(&file, part, &mut names);
            }
        }
        names.into_iter().collect()
    });
    // The most specific name contains the most numbers.
    names.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    names
}

fn read(mut file: &File, part: Range<u64>, names: &mut HashSet<String>) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end.saturating_sub(part.start));
    let mut block = Vec::with_capacity(BLOCK_LEN + MAX_NAME_LEN + MAX_PATH_LEN);
    loop {
        // A name may span two blocks.
        let kept = block.len().min(MAX_NAME_LEN + MAX_PATH_LEN);
        block.drain(..block.len() - kept);
        let is_last = (&mut rest).take(BLOCK_LEN as u64).read_to_end(&mut block)? < BLOCK_LEN;
        names.extend(in_block(&block, is_last).take(MAX_NAMES));
        if is_last || names.len() > MAX_NAMES {
            return Ok(());
        }
    }
}

/// Returns the names in a block. Depending on the language, strings end with a zero byte or are followed by the next
/// string. Unless this is the last block, names near the end are left to the next block.
fn in_block(block: &[u8], is_last: bool) -> impl Iterator<Item = String> + '_ {
    let end = if is_last { block.len() } else { block.len().saturating_sub(MAX_NAME_LEN) };
    memchr::memmem::find_iter(block, STEM).take_while(move |at| *at < end).filter_map(|at| {
        let name = name(block.get(at..)?)?;
        Some(path(block.get(at.saturating_sub(MAX_PATH_LEN)..at)?, &name).unwrap_or(name))
    })
}

/// Returns the path of an existing file with this name, if the preceding text ends with a directory. Strings may follow
/// one another without a zero byte, so the longest existing path counts.
fn path(before: &[u8], name: &str) -> Option<String> {
    let text = before.rsplit(|byte| *byte == 0).next().filter(|text| text.ends_with(b"/"))?;
    let starts = memchr::memchr_iter(b'/', text);
    let mut paths = starts.filter_map(|at| Some(format!("{}{name}", std::str::from_utf8(text.get(at..)?).ok()?)));
    paths.find(|path| Path::new(path).leads_to_file())
}

/// Returns the name at the start of this text. `libcudnn.so.%d` does not count, because the program fills in the rest.
fn name(text: &[u8]) -> Option<String> {
    let mut len = STEM.len();
    while let Some(after) = text.get(len..MAX_NAME_LEN.min(text.len())).and_then(|rest| rest.strip_prefix(b".")) {
        match after.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            // A bare `libcudnn.so.` does not count, but a version may be followed by the period of a sentence.
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

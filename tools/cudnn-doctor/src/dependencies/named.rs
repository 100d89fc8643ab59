//! The names of cuDNN's shim that programs contain as text: those that open it with dlopen must, unless they put the name
//! together. A text is a hint, and no proof that the program opens the library.

use cudnn_probe::facts::{self, PathFacts};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::Object;
use cudnn_probe::parts_without_gpu_code;

use crate::escape::Printable;

/// The most bytes that are read of all files, and names that are returned.
const MAX_LEN: u64 = 512 << 20;
const MAX_NAMES: usize = 64;
const BLOCK_LEN: usize = 1 << 20;

const STEM: &[u8] = b"libcudnn.so";
/// The longest name with a version: `libcudnn.so.9.28.0` and a margin.
const MAX_NAME_LEN: usize = 32;
/// The longest path before a name.
const MAX_PATH_LEN: usize = 4096;

/// A name of cuDNN's shim in a file.
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
    /// What is known of it, in a sentence.
    pub(crate) fn evidence(&self) -> String {
        let file = self.file.printable();
        format!("{file} opens {} itself, as its read-only data says: a text, which is no proof", self.name)
    }
}

/// The names in these objects, each once for an object: those with a version first. Names that the object is linked to do
/// not count, nor those in cuDNN's own libraries.
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
                // What was read before an error counts.
                let _ = read(&file, part, &mut names);
            }
        }
        names.into_iter().collect()
    });
    // The name with the most numbers is the most specific.
    names.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    names
}

fn read(mut file: &File, part: Range<u64>, names: &mut HashSet<String>) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end.saturating_sub(part.start));
    let mut block = Vec::with_capacity(BLOCK_LEN + MAX_NAME_LEN + MAX_PATH_LEN);
    loop {
        // A name may begin at the end of the last block.
        let kept = block.len().min(MAX_NAME_LEN + MAX_PATH_LEN);
        block.drain(..block.len() - kept);
        let is_last = (&mut rest).take(BLOCK_LEN as u64).read_to_end(&mut block)? < BLOCK_LEN;
        names.extend(in_block(&block, is_last).take(MAX_NAMES));
        if is_last || names.len() > MAX_NAMES {
            return Ok(());
        }
    }
}

/// The names in a block. Languages differ in what follows a text: a zero, or the next text. Before the last block, a name
/// near the end is left to the next one.
fn in_block(block: &[u8], is_last: bool) -> impl Iterator<Item = String> + '_ {
    let end = if is_last { block.len() } else { block.len().saturating_sub(MAX_NAME_LEN) };
    memchr::memmem::find_iter(block, STEM).take_while(move |at| *at < end).filter_map(|at| {
        let name = name(block.get(at..)?)?;
        Some(path(block.get(at.saturating_sub(MAX_PATH_LEN)..at)?, &name).unwrap_or(name))
    })
}

/// The path of an existing file with this name, if the text before the name ends with its directory. One text may follow
/// another without a zero: the longest path counts.
fn path(before: &[u8], name: &str) -> Option<String> {
    let text = before.rsplit(|byte| *byte == 0).next().filter(|text| text.ends_with(b"/"))?;
    let starts = memchr::memchr_iter(b'/', text);
    let mut paths = starts.filter_map(|at| Some(format!("{}{name}", std::str::from_utf8(text.get(at..)?).ok()?)));
    paths.find(|path| Path::new(path).leads_to_file())
}

/// The name at the start of this text. `libcudnn.so.%d` is none: the program puts the rest together.
fn name(text: &[u8]) -> Option<String> {
    let mut len = STEM.len();
    while let Some(after) = text.get(len..MAX_NAME_LEN.min(text.len())).and_then(|rest| rest.strip_prefix(b".")) {
        match after.iter().take_while(|byte| byte.is_ascii_digit()).count() {
            // `libcudnn.so.`, but a sentence may end after a version.
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
    fn names_end_where_no_version_follows() {
        for (text, expected) in [
            ("libcudnn.so.9", Some("libcudnn.so.9")),
            ("libcudnn.so", Some("libcudnn.so")),
            ("libcudnn.so\0", Some("libcudnn.so")),
            ("libcudnn.so.9.1.0\0x", Some("libcudnn.so.9.1.0")),
            // Rust and Go put one text behind the other.
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

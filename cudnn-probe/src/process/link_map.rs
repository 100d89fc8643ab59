//! ld.so's list of what a process has loaded, in the order of loading, read from the process's memory. The auxiliary
//! vector has the address of the program headers, these lead to `r_debug`, and that to the list (`<link.h>`).

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::platform::{path_from_bytes, read_at};

/// More objects, and longer paths, than any process has.
const MAX_OBJECTS: usize = 4096;
const MAX_NAME_LEN: usize = 4096;

/// The files, first loaded first, without the program itself, which has no name in the list.
pub(super) fn names(pid: u32) -> io::Result<Vec<PathBuf>> {
    let auxiliary = std::fs::read(format!("/proc/{pid}/auxv"))?;
    let auxiliary: Vec<(u64, u64)> = pairs(&auxiliary).collect();
    let value = |wanted: u64| auxiliary.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    // AT_PHDR and AT_PHNUM.
    let (Some(headers), Some(count)) = (value(3), value(5)) else { return Err(invalid_link_map()) };
    let memory = Memory(File::open(format!("/proc/{pid}/mem"))?);
    let mut next = memory.first(headers, count)?;
    let mut found = Vec::new();
    for _ in 0..MAX_OBJECTS {
        if next == 0 {
            break;
        }
        let [_, name, _, after] = memory.words(next)?;
        let name = memory.text(name)?;
        if !name.is_empty() {
            found.push(path_from_bytes(&name));
        }
        next = after;
    }
    Ok(found)
}

fn invalid_link_map() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the process has no list of libraries as glibc's ld.so keeps it")
}

/// The complete pairs of 64-bit words.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    bytes.as_chunks::<16>().0.iter().map(|pair| {
        let (tag, value) = pair.split_at(8);
        (word(tag), word(value))
    })
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

struct Memory(File);

impl Memory {
    /// The first entry of the list.
    fn first(&self, headers: u64, count: u64) -> io::Result<u64> {
        const LENGTH: usize = 56;
        let (mut bias, mut dynamic) = (0, None);
        for index in 0..count.min(128) {
            let mut header = [0; LENGTH];
            self.read_exact(&mut header, headers.wrapping_add(index * LENGTH as u64))?;
            let number = |at: usize, length: usize| header.get(at..at + length).map_or(0, word);
            let (kind, address, length) = (number(0, 4), number(16, 8), number(40, 8));
            // PT_DYNAMIC and PT_PHDR.
            match kind {
                2 => dynamic = Some((address, length)),
                6 => bias = headers.wrapping_sub(address),
                _ => {}
            }
        }
        let (address, length) = dynamic.ok_or_else(invalid_link_map)?;
        let mut entries = vec![0; usize::try_from(length.min(1 << 16)).unwrap_or(0)];
        self.read_exact(&mut entries, bias.wrapping_add(address))?;
        // DT_DEBUG.
        let debug = pairs(&entries).find(|(tag, _)| *tag == 21).map(|(_, value)| value).ok_or_else(invalid_link_map)?;
        let [_, first] = self.words(debug)?;
        Ok(first)
    }

    fn words<const COUNT: usize>(&self, at: u64) -> io::Result<[u64; COUNT]> {
        let mut bytes = vec![0; COUNT * 8];
        self.read_exact(&mut bytes, at)?;
        let mut words = [0; COUNT];
        for (to, from) in words.iter_mut().zip(bytes.chunks(8)) {
            *to = word(from);
        }
        Ok(words)
    }

    fn read_exact(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        while !into.is_empty() {
            let read = read_at(&self.0, into, at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into = into.get_mut(read..).unwrap_or_default();
            at = at.wrapping_add(read as u64);
        }
        Ok(())
    }

    /// A string up to its zero byte.
    fn text(&self, at: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MAX_NAME_LEN];
        let mut length = 0;
        // A read ends early at the end of a mapping.
        while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
            let read = read_at(&self.0, rest, at.wrapping_add(length as u64)).or_else(|error| match length {
                0 => Err(error),
                _ => Ok(0),
            })?;
            let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end < length + read);
            if let Some(end) = end {
                bytes.truncate(end);
                return Ok(bytes);
            }
            if read == 0 {
                break;
            }
            length += read;
        }
        Err(invalid_link_map())
    }
}

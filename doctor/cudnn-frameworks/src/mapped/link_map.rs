//! Reads ld.so's list of loaded libraries from the memory of a process.

use std::fs::File;
use std::path::PathBuf;

use cudnn_os::files::{path_from_bytes, read_at};

/// Limits for the number of objects and the length of paths, which no real process exceeds.
const MAX_OBJECTS: usize = 4096;
const MAX_NAME_LEN: usize = 4096;

/// Returns the loaded files in load order, without the program, which has an empty name. The auxiliary vector leads to
/// the program headers, then to `r_debug`, and then to the list (`<link.h>`). `None` if the kernel denies access, or if
/// the process's libc lacks this list.
pub(super) fn names(pid: u32) -> Option<Vec<PathBuf>> {
    let auxiliary = words(&std::fs::read(format!("/proc/{pid}/auxv")).ok()?);
    let memory = Memory(File::open(format!("/proc/{pid}/mem")).ok()?);
    // AT_PHDR and AT_PHNUM.
    let mut next = memory.first(value_of(&auxiliary, 3)?, value_of(&auxiliary, 5)?)?;
    let mut found = Vec::new();
    for _ in 0..MAX_OBJECTS {
        if next == 0 {
            break;
        }
        let [_, name, _, after] = memory.words(next)?;
        let mut name = memory.read(name, MAX_NAME_LEN);
        name.truncate(name.iter().position(|byte| *byte == 0)?);
        if !name.is_empty() {
            found.push(path_from_bytes(&name));
        }
        next = after;
    }
    Some(found)
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn value_of(pairs: &[u64], wanted: u64) -> Option<u64> {
    pairs.as_chunks().0.iter().find_map(|[tag, value]| (*tag == wanted).then_some(*value))
}

struct Memory(File);

impl Memory {
    fn first(&self, headers: u64, count: u64) -> Option<u64> {
        const LENGTH: u64 = 56;
        let (mut bias, mut dynamic) = (0, None);
        for index in 0..count.min(128) {
            let [kind, _, address, _, _, length, _] = self.words(headers.wrapping_add(index * LENGTH))?;
            // PT_DYNAMIC and PT_PHDR. The upper half of the word contains the flags.
            match kind & u64::from(u32::MAX) {
                2 => dynamic = Some((address, length)),
                6 => bias = headers.wrapping_sub(address),
                _ => {}
            }
        }
        let (address, length) = dynamic?;
        let entries = self.read(bias.wrapping_add(address), usize::try_from(length.min(1 << 16)).unwrap_or(0));
        // DT_DEBUG.
        let [_, first] = self.words(value_of(&words(&entries), 21)?)?;
        Some(first)
    }

    fn words<const COUNT: usize>(&self, at: u64) -> Option<[u64; COUNT]> {
        words(&self.read(at, COUNT * 8)).try_into().ok()
    }

    /// Returns the bytes at an address, or fewer at the end of a mapping.
    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match read_at(&self.0, rest, at.wrapping_add(filled as u64)) {
                Ok(0) | Err(_) => break,
                Ok(read) => filled += read,
            }
        }
        bytes.truncate(filled);
        bytes
    }
}

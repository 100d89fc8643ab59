//! What a running process has loaded, as the kernel tells it, and in which order, as its dynamic linker does.

#[cfg(target_os = "linux")]
mod link_map;

use std::io;
use std::path::{Path, PathBuf};

use crate::file::links;

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapped {
    /// The file, as the kernel names it.
    pub path: PathBuf,
    /// The file has been removed or replaced since: what is at its path now is another one.
    pub is_gone: bool,
    /// Its place in the order in which the process's dynamic linker loaded its libraries; nothing where that cannot be
    /// read, or where something else than the dynamic linker has mapped the file.
    pub place: Option<usize>,
}

/// The libraries that a process has mapped, each once, in the order of their addresses.
///
/// # Errors
/// What the system says: there is no such process, or it is another user's.
pub fn libraries_of(pid: u32) -> io::Result<Vec<Mapped>> {
    let mut found = parse(&std::fs::read(format!("/proc/{pid}/maps"))?);
    let order: Vec<PathBuf> = in_order(pid).into_iter().map(|path| real(&path)).collect();
    for mapped in &mut found {
        let path = real(&mapped.path);
        mapped.place = order.iter().position(|other| *other == path);
    }
    Ok(found)
}

/// Those of a process's files on whose account this one was loaded: they need it (`DT_NEEDED`), and were not loaded after
/// it. None: it was opened by code.
#[must_use]
pub fn needed_by<'a>(mapped: &'a [Mapped], library: &Mapped) -> Vec<&'a Path> {
    let name = links(&library.path).ok().and_then(|links| links.soname);
    let name = name.or_else(|| Some(library.path.file_name()?.to_string_lossy().into_owned())).unwrap_or_default();
    let is_later = |other: &Mapped| other.place.zip(library.place).is_some_and(|(other, own)| other >= own);
    let needs =
        |other: &&Mapped| !is_later(other) && links(&other.path).is_ok_and(|links| links.needed.contains(&name));
    mapped.iter().filter(|other| other.path != library.path).filter(needs).map(|other| other.path.as_path()).collect()
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(target_os = "linux")]
fn in_order(pid: u32) -> Vec<PathBuf> {
    // Another user's process, one of another libc, or a kernel that forbids it: the order is a nicety.
    link_map::names(pid).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn in_order(_pid: u32) -> Vec<PathBuf> {
    Vec::new()
}

fn parse(maps: &[u8]) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // Five columns of numbers, then the path; only a path has a slash.
        let Some(path) = line.iter().position(|byte| *byte == b'/').and_then(|start| line.get(start..)) else {
            continue;
        };
        let (path, is_gone) = match path.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let mapped = Mapped { path: to_path(&unescape(path)), is_gone, place: None };
        let is_library = mapped.path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if is_library && !found.contains(&mapped) {
            found.push(mapped);
        }
    }
    found
}

/// The kernel writes a newline in a name as `\012`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut rest = path;
    let mut text = Vec::with_capacity(path.len());
    while let Some((first, after)) = rest.split_first() {
        match after.strip_prefix(b"012") {
            Some(after) if *first == b'\\' => {
                text.push(b'\n');
                rest = after;
            }
            _ => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

#[cfg(unix)]
fn to_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_told_once_whatever_its_name_is() {
        let maps = b"7f00-7f01 r--p 00000000 fe:00 12   /a b/libx.so.9\n\
                     7f01-7f02 r-xp 00001000 fe:00 12   /a b/libx.so.9\n\
                     7f02-7f03 r--p 00000000 fe:00 13   /new\\012line/liby.so (deleted)\n\
                     7f03-7f04 rw-p 00000000 00:00 0    [heap]\n\
                     7f04-7f05 rw-p 00000000 fe:00 14   /usr/bin/program\n\
                     7f05-7f06 rw-p 00000000 00:00 0\n";
        let told = |path: &str, is_gone| Mapped { path: path.into(), is_gone, place: None };
        assert_eq!(parse(maps), [told("/a b/libx.so.9", false), told("/new\nline/liby.so", true)]);
    }
}

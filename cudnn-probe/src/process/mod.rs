//! What a running process has loaded, as the kernel tells it, and in which order, as its dynamic linker does.

#[cfg(target_os = "linux")]
mod link_map;

use std::io;
use std::path::{Path, PathBuf};

use crate::image::links;

/// A file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedLibrary {
    /// The file, as the kernel names it.
    pub path: PathBuf,
    /// The file has been removed since, or another put in its place.
    pub deleted: bool,
    /// Where the very file that is mapped can be read, also when the process is in a container of its own or the file is
    /// gone; nothing where the kernel does not allow it.
    pub file: Option<PathBuf>,
    /// Its place in the order in which the process's dynamic linker loaded its libraries; nothing where that cannot be
    /// read, or where something else than the dynamic linker has mapped the file.
    pub load_index: Option<usize>,
}

/// The libraries that a process has mapped, each once, in the order of their addresses.
///
/// # Errors
/// What the system says: there is no such process, or it is another user's.
pub fn mapped_libraries(pid: u32) -> io::Result<Vec<MappedLibrary>> {
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    if maps.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has ended, or is the kernel's own"));
    }
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let order: Vec<PathBuf> = in_order(pid).into_iter().map(|path| real(&root, &path)).collect();
    let found = parse(&maps).into_iter().map(|Line { mut mapped, range, inode }| {
        mapped.file = readable_path(&root, &mapped, &format!("/proc/{pid}/map_files/{range}"), inode);
        let path = real(&root, &mapped.path);
        mapped.load_index = order.iter().position(|other| *other == path);
        mapped
    });
    Ok(found.collect())
}

/// The file that is mapped: by the kernel's own link to it, which not everybody may follow, or by its path in the world
/// that the process sees, if that is still the same file.
fn readable_path(root: &Path, mapped: &MappedLibrary, link: &str, inode: u64) -> Option<PathBuf> {
    if std::fs::File::open(link).is_ok() {
        return Some(link.into());
    }
    let path = in_world(root, &mapped.path);
    let is_same = !mapped.deleted && inode_of(&path) == Some(inode);
    is_same.then_some(path)
}

fn in_world(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(unix)]
fn inode_of(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(std::fs::metadata(path).ok()?.ino())
}

#[cfg(not(unix))]
fn inode_of(_path: &Path) -> Option<u64> {
    None
}

/// Those of a process's files on whose account this one was loaded: they need it (`DT_NEEDED`), and were not loaded after
/// it. None: it was opened by code.
#[must_use]
pub fn needed_by<'a>(mapped: &'a [MappedLibrary], library: &MappedLibrary) -> Vec<&'a Path> {
    let of = |mapped: &MappedLibrary| links(mapped.file.as_ref()?).ok();
    let name = of(library).and_then(|links| links.soname);
    let name = name.or_else(|| Some(library.path.file_name()?.to_string_lossy().into_owned())).unwrap_or_default();
    let is_later =
        |other: &MappedLibrary| other.load_index.zip(library.load_index).is_some_and(|(other, own)| other >= own);
    let needs =
        |other: &&MappedLibrary| !is_later(other) && of(other).is_some_and(|links| links.needed.contains(&name));
    mapped.iter().filter(|other| other.path != library.path).filter(needs).map(|other| other.path.as_path()).collect()
}

/// Without links in it, as the process sees it: the kernel tells paths so, and the linker as it was told them.
fn real(root: &Path, path: &Path) -> PathBuf {
    let world = std::fs::read_link(root).unwrap_or_else(|_| "/".into());
    if world != Path::new("/") {
        return path.to_owned();
    }
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A line of the kernel's list.
struct Line {
    mapped: MappedLibrary,
    /// `7f00-7f01`.
    range: String,
    inode: u64,
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

fn parse(maps: &[u8]) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // Five columns of numbers, then the path; only a path has a slash.
        let Some((columns, path)) =
            line.iter().position(|byte| *byte == b'/').and_then(|start| line.split_at_checked(start))
        else {
            continue;
        };
        let columns = String::from_utf8_lossy(columns).into_owned();
        let columns: Vec<&str> = columns.split_whitespace().collect();
        let [range, _, _, _, inode] = columns.as_slice() else { continue };
        let (path, is_gone) = match path.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let mapped = MappedLibrary { path: to_path(&unescape(path)), deleted: is_gone, file: None, load_index: None };
        let is_library = mapped.path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if is_library && found.iter().all(|line| line.mapped != mapped) {
            found.push(Line { mapped, range: (*range).to_owned(), inode: inode.parse().unwrap_or(0) });
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
        let told =
            |path: &str, is_gone| MappedLibrary { path: path.into(), deleted: is_gone, file: None, load_index: None };
        let parsed: Vec<MappedLibrary> = parse(maps).into_iter().map(|line| line.mapped).collect();
        assert_eq!(parsed, [told("/a b/libx.so.9", false), told("/new\nline/liby.so", true)]);
    }
}

//! Lists the libraries of a running process, from `/proc` and ld.so's list.

mod link_map;

use cudnn_probe::facts;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use cudnn_os::files::{inode, path_from_bytes};
use cudnn_probe::image::{Links, links};

/// A library that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedLibrary {
    /// The path of the file, as the kernel reports it.
    pub path: PathBuf,
    /// Whether the file was deleted or replaced after loading.
    pub deleted: bool,
    /// A path to the mapped file itself, even if it was deleted or the process runs in a container. `None` if the
    /// kernel denies access.
    pub file: Option<PathBuf>,
    /// The position in ld.so's load order. `None` if the list is unreadable or ld.so did not map the file.
    pub load_index: Option<usize>,
}

impl MappedLibrary {
    /// Creates an entry for an existing file with this position in the load order.
    pub fn new(path: impl Into<PathBuf>, load_index: usize) -> Self {
        let path = path.into();
        MappedLibrary { file: Some(path.clone()), path, deleted: false, load_index: Some(load_index) }
    }
}

/// Returns the libraries that a process has mapped, without duplicates, ordered by address.
///
/// # Errors
///
/// Returns the operating system's error, for example if there is no such process, or if it belongs to another user.
pub fn mapped_libraries(pid: u32) -> io::Result<Vec<MappedLibrary>> {
    let maps = std::fs::read(format!("/proc/{pid}/maps"))?;
    if maps.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended, or is a kernel thread"));
    }
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    // Other C libraries lack this list, and the kernel may deny access.
    let order = link_map::names(pid).unwrap_or_default();
    let order: HashMap<PathBuf, usize> =
        order.iter().enumerate().rev().map(|(index, path)| (real(&root, path), index)).collect();
    let found = parse(&maps).into_iter().map(|(mut mapped, range, inode)| {
        mapped.file = readable_path(&root, &mapped, &format!("/proc/{pid}/map_files/{range}"), inode);
        mapped.load_index = order.get(&real(&root, &mapped.path)).copied();
        mapped
    });
    Ok(found.collect())
}

/// Returns a readable path of the mapped file: the kernel's link, which needs privileges, or the path in the process's
/// root directory if it leads to the same file.
fn readable_path(root: &Path, mapped: &MappedLibrary, link: &str, number: u64) -> Option<PathBuf> {
    if std::fs::File::open(link).is_ok() {
        return Some(link.into());
    }
    let path = root.join(mapped.path.strip_prefix("/").unwrap_or(&mapped.path));
    let is_same = !mapped.deleted && inode(&path) == Some(number);
    is_same.then_some(path)
}

/// The dependencies between the files of a process. Reads each file once.
#[derive(Debug)]
pub struct Dependents<'a> {
    /// Maps names in DT_NEEDED to the files with that entry.
    by_name: HashMap<String, Vec<&'a MappedLibrary>>,
}

impl<'a> Dependents<'a> {
    /// Reads the dependencies of these files.
    pub fn new(mapped: &'a [MappedLibrary]) -> Self {
        let mut by_name = HashMap::<String, Vec<&MappedLibrary>>::new();
        for library in mapped {
            for name in links_of(library).map(|links| links.needed).unwrap_or_default() {
                by_name.entry(name).or_default().push(library);
            }
        }
        Dependents { by_name }
    }

    /// Returns the files that caused this library to be loaded: they depend on it (`DT_NEEDED`) and were loaded before.
    /// Empty if it was loaded with `dlopen`.
    pub fn of(&self, library: &MappedLibrary) -> Vec<&'a Path> {
        let soname = links_of(library).and_then(|links| links.soname);
        let name = soname.or_else(|| Some(library.path.file_name()?.to_string_lossy().into_owned()));
        let users = name.and_then(|name| self.by_name.get(&name)).map(Vec::as_slice).unwrap_or_default();
        let is_later =
            |other: &MappedLibrary| other.load_index.zip(library.load_index).is_some_and(|(other, this)| other >= this);
        let needs_it = |other: &&&'a MappedLibrary| other.path != library.path && !is_later(other);
        users.iter().filter(needs_it).map(|other| other.path.as_path()).collect()
    }
}

fn links_of(mapped: &MappedLibrary) -> Option<Links> {
    links(mapped.file.as_ref()?).ok()
}

/// Resolves links if the process sees the same file system, because ld.so's paths are unresolved, unlike the kernel's.
fn real(root: &Path, path: &Path) -> PathBuf {
    let target = facts::read_link(root).unwrap_or_else(|_| "/".into());
    if target != Path::new("/") {
        return path.to_owned();
    }
    crate::files::real_path(path)
}

/// Parses the libraries in `/proc/PID/maps`, with their first address range (`7f00-7f01`) and inode.
fn parse(maps: &[u8]) -> Vec<(MappedLibrary, String, u64)> {
    let mut found = Vec::new();
    let mut seen: HashSet<(PathBuf, bool)> = HashSet::new();
    for line in maps.split(|byte| *byte == b'\n') {
        // The path follows five columns. Only the path contains a slash.
        let start = line.iter().position(|byte| *byte == b'/');
        let Some((columns, path)) = start.and_then(|start| line.split_at_checked(start)) else { continue };
        let columns = String::from_utf8_lossy(columns);
        let mut columns = columns.split_whitespace();
        let (Some(range), Some(inode)) = (columns.next(), columns.nth(3)) else { continue };
        let stem = path.strip_suffix(b" (deleted)");
        let (path, deleted) = (path_from_bytes(stem.unwrap_or(path)), stem.is_some());
        let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if is_library && seen.insert((path.clone(), deleted)) {
            let mapped = MappedLibrary { path, deleted, file: None, load_index: None };
            found.push((mapped, range.to_owned(), inode.parse().unwrap_or(0)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_libraries_are_listed_once() {
        let maps = b"7f00-7f01 r--p 00000000 fe:00 12   /a b/libx.so.9\n\
                     7f01-7f02 r-xp 00001000 fe:00 12   /a b/libx.so.9\n\
                     7f02-7f03 r--p 00000000 fe:00 13   /c/liby.so (deleted)\n\
                     7f03-7f04 rw-p 00000000 00:00 0    [heap]\n\
                     7f04-7f05 rw-p 00000000 fe:00 14   /usr/bin/program\n\
                     7f05-7f06 rw-p 00000000 00:00 0\n";
        let library = |path: &str, deleted| MappedLibrary { path: path.into(), deleted, file: None, load_index: None };
        let parsed: Vec<MappedLibrary> = parse(maps).into_iter().map(|(mapped, ..)| mapped).collect();
        assert_eq!(parsed, [library("/a b/libx.so.9", false), library("/c/liby.so", true)]);
    }
}

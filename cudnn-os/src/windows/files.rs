//! Inspects and opens files on Windows, where paths are UTF-16, may have the prefix `\\?\`, and may name devices.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::FileExt;
#[cfg(feature = "native")]
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf, Prefix};

#[cfg(feature = "native")]
use windows_sys::Win32::Storage::FileSystem::{DELETE, FILE_FLAG_DELETE_ON_CLOSE, FILE_GENERIC_WRITE};

use crate::device_names::is_device_name;

/// The longest path that all programs can use without the prefix `\\?\`.
const MAX_PATH: usize = 259;

pub fn file_id(path: &Path) -> Option<FileId> {
    canonicalize(path).ok()
}

// Removes the prefix `\\?\` where possible, because many programs and users do not know it.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let found = match std::fs::canonicalize(path) {
        Ok(found) => found,
        // Some file systems, such as RAM disks or long paths in Wine, cannot report the path of a file.
        Err(_) if std::fs::metadata(path).is_ok() => with_verbatim_prefix(std::path::absolute(path)?),
        Err(error) => return Err(error),
    };
    Ok(without_verbatim_prefix(&found).unwrap_or(found))
}

fn with_verbatim_prefix(path: PathBuf) -> PathBuf {
    match path.components().next() {
        Some(Component::Prefix(prefix)) if matches!(prefix.kind(), Prefix::Disk(_)) => {
            let mut verbatim = OsString::from(r"\\?\");
            verbatim.push(path);
            verbatim.into()
        }
        _ => path,
    }
}

fn without_verbatim_prefix(path: &Path) -> Option<PathBuf> {
    let mut components = path.components();
    let Component::Prefix(prefix) = components.next()? else { return None };
    let mut plain = match prefix.kind() {
        Prefix::VerbatimDisk(disk) => OsString::from(format!("{}:", char::from(disk))),
        Prefix::VerbatimUNC(server, share) => {
            let mut plain = OsString::from("\\\\");
            plain.push(server);
            plain.push("\\");
            plain.push(share);
            plain
        }
        _ => return None,
    };
    for component in components {
        match component {
            Component::RootDir => {}
            // Without the prefix, Windows would change the meaning of other names.
            Component::Normal(name) if !is_changed_without_prefix(name) => {
                plain.push("\\");
                plain.push(name);
            }
            _ => return None,
        }
    }
    if path.components().nth(2).is_none() {
        plain.push("\\");
    }
    (plain.encode_wide().count() <= MAX_PATH).then(|| plain.into())
}

fn is_changed_without_prefix(name: &OsStr) -> bool {
    let last = name.encode_wide().last();
    let is_dropped = last.is_none_or(|last| last == u16::from(b'.') || last == u16::from(b' '));
    is_dropped || is_device_name(name) || name.encode_wide().any(|unit| unit == u16::from(b'/'))
}

pub fn is_executable(path: &Path) -> bool {
    let is_program = path.extension().is_some_and(|extension| {
        ["exe", "com", "bat", "cmd"].iter().any(|program| extension.eq_ignore_ascii_case(program))
    });
    is_program && path.is_file()
}

pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(into, offset)
}

#[cfg(feature = "native")]
pub fn create_temporary(name: &Path) -> io::Result<File> {
    let access = FILE_GENERIC_WRITE | DELETE;
    File::options().write(true).create_new(true).access_mode(access).custom_flags(FILE_FLAG_DELETE_ON_CLOSE).open(name)
}

/// Returns whether opening this path would open a device, as for `C:\x\NUL`, `CON.dll` or `\\.\pipe\x`.
pub(crate) fn is_device(path: &Path) -> bool {
    let is_unc_or_device = |component: Component<'_>| match component {
        Component::Prefix(prefix) => match prefix.kind() {
            Prefix::DeviceNS(_) => true,
            // Accept `\\?\C:\x` and `\\?\Volume{..}\x`, but not other system objects such as `\\?\PIPE\x`.
            Prefix::Verbatim(name) => !name.to_string_lossy().to_ascii_lowercase().starts_with("volume{"),
            Prefix::UNC(_, share) | Prefix::VerbatimUNC(_, share) => share.eq_ignore_ascii_case("pipe"),
            _ => false,
        },
        Component::Normal(name) => is_device_name(name),
        _ => false,
    };
    path.components().any(is_unc_or_device)
}

/// The canonical path, because std has no stable function that returns file numbers.
pub type FileId = PathBuf;

pub fn imagined_id(path: &Path) -> FileId {
    path.to_owned()
}

pub fn inode(_path: &Path) -> Option<u64> {
    None
}

/// Converts the text to UTF-8, with replacement characters for invalid Unicode.
pub fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
    Cow::Owned(text.to_string_lossy().into_owned().into_bytes())
}

pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns `false`, because Windows elevates programs with a prompt.
pub fn is_setid(_program: &Path) -> bool {
    false
}

/// Returns `false`, because std cannot read access control lists.
pub fn is_like_tmp(_dir: &Path) -> bool {
    false
}

/// Returns the path unchanged, because std cannot read access control lists.
pub fn resolve_beside(path: &Path, _program_dir: &Path) -> Option<PathBuf> {
    Some(path.to_owned())
}

pub fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn make_as_private_as(file: &File, other: &std::fs::Metadata) -> io::Result<()> {
    file.set_permissions(other.permissions())
}

/// Returns an error, because Windows allows only some users to create symbolic links.
pub fn symlink(_target: &Path, _link: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn open_without_blocking(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn open_without_following(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(feature = "processes")]
pub fn skip_hole(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "processes")]
pub fn lock_dir(_dir: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(feature = "processes")]
pub fn sync_dir(_dir: &Path) {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::os::windows::ffi::OsStringExt;

    #[test]
    fn a_path_is_shown_without_the_prefix_where_it_means_the_same() {
        for (path, expected) in [
            (r"\\?\C:\a b\größe\x.dll", Some(r"C:\a b\größe\x.dll")),
            (r"\\?\C:\", Some(r"C:\")),
            (r"\\?\UNC\server\share\x", Some(r"\\server\share\x")),
            (r"\\?\C:\x.\y", None),
            (r"\\?\C:\x \y", None),
            (r"\\?\C:\nul\y", None),
            (r"\\?\Volume{1}\y", None),
            (r"C:\x", None),
        ] {
            assert_eq!(without_verbatim_prefix(Path::new(path)), expected.map(PathBuf::from), "{path}");
        }
        let long = format!(r"\\?\C:\{}", "x\\".repeat(150));
        assert_eq!(without_verbatim_prefix(Path::new(&long)), None);
        // An unpaired surrogate has no UTF-8 encoding.
        let mut name: Vec<u16> = r"\\?\C:\x".encode_utf16().collect();
        name.push(0xd800);
        let plain = without_verbatim_prefix(Path::new(&OsString::from_wide(&name))).unwrap();
        assert_eq!(plain.as_os_str().encode_wide().last(), Some(0xd800));
    }

    #[test]
    fn a_file_at_a_path_beyond_260_characters_is_read_and_a_device_is_not() {
        let root = std::env::temp_dir().join(format!("cudnn probe größe {}", std::process::id()));
        let dir = root.join(["a directory with a long name"; 9].join("\\"));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("cudnn_graph64_9.dll");
        std::fs::write(&file, "MZ").unwrap();
        assert!(file.as_os_str().len() > 260);
        assert!(matches!(crate::files::open_regular(&file), Ok(crate::files::Opened::Regular(_, 2))));
        assert!(canonicalize(&file).unwrap().is_file());
        assert!(!canonicalize(&root).unwrap().to_string_lossy().starts_with(r"\\?\"));
        for device in ["NUL", "con", r"C:\Windows\NUL.dll", r"\\.\pipe\x"] {
            let opened = crate::files::open_regular(Path::new(device));
            assert!(matches!(opened, Ok(crate::files::Opened::Other(_))), "{device}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn devices_are_recognised_by_their_names() {
        for (path, expected) in [
            (r"C:\x\NUL", true),
            (r"C:\x\con.dll", true),
            (r"C:\COM1\cudnn_graph64_9.dll", true),
            (r"\\.\pipe\x", true),
            (r"\\.\C:", true),
            (r"\\?\PIPE\x", true),
            (r"\\server\pipe\x", true),
            (r"\\?\GLOBALROOT\Device\Null", true),
            (r"\\?\C:\x", false),
            (r"C:\null\context\com\lpt", false),
        ] {
            assert_eq!(is_device(Path::new(path)), expected, "{path}");
        }
    }
}

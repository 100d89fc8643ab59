//! Lists of the pages that cuDNN maps when it starts. A list that is recorded after one start lets later starts read
//! the pages ahead. `cudnn-doctor preload --keep` records a list, and preloads use the list in [`FILE_VARIABLE`].
//!
//! The text of a list is a header, and a line per file with the size, the modification time, the ranges and the path.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_os::environment::is_secure_execution;
use cudnn_os::pages;

/// The variable with the path of a page list.
pub const FILE_VARIABLE: &str = "CUDNN_LOADER_PAGES";

const HEADER: &str = "cuDNN pages 2\n";

/// The file pages that a program needs when it starts cuDNN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageList {
    /// The files, in the order of use.
    pub files: Vec<FilePages>,
}

/// The pages of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePages {
    /// The file. A line of the list cannot contain a path with a newline or invalid UTF-8.
    pub path: PathBuf,
    /// The file's size in bytes. A file with a changed size or time is ignored.
    pub size: u64,
    /// The modification time, in seconds since 1970.
    pub modified: i64,
    /// The pages as byte ranges, in ascending order.
    pub ranges: Vec<Range<u64>>,
}

impl FilePages {
    fn decode(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, ' ');
        let (size, modified) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let range = |text: &str| {
            let (start, end) = text.split_once('-')?;
            let (start, end) = (start.parse().ok()?, end.parse().ok()?);
            (start < end && end <= size).then_some(start..end)
        };
        let ranges = fields.next()?.split(',').map(range).collect::<Option<_>>()?;
        Some(FilePages { path: fields.next()?.into(), size, modified, ranges })
    }
}

impl PageList {
    /// Returns the contents of the list's file.
    #[must_use]
    pub fn encode(&self) -> String {
        let line = |file: &FilePages| {
            let ranges: Vec<_> = file.ranges.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
            format!("{} {} {} {}\n", file.size, file.modified, ranges.join(","), file.path.display())
        };
        HEADER.to_owned() + &self.files.iter().map(line).collect::<String>()
    }

    /// Returns whether a file with these contents is a list of any format, even if it is damaged.
    #[must_use]
    pub fn is_list(content: &[u8]) -> bool {
        content.starts_with(b"cuDNN pages ")
    }

    /// Parses the contents of a list's file.
    ///
    /// # Errors
    /// Fails if the contents are damaged or have a different format.
    pub fn decode(content: &[u8]) -> io::Result<Self> {
        let lines = std::str::from_utf8(content).ok().and_then(|text| text.strip_prefix(HEADER)?.strip_suffix('\n'));
        let files: Option<Vec<_>> = lines.and_then(|lines| lines.split('\n').map(FilePages::decode).collect());
        files.map(|files| PageList { files }).ok_or_else(|| io::Error::other("the list of pages is damaged"))
    }

    /// Reads the list in a file, for this installation. It is trusted only if no other user can write to it, because it
    /// makes this process open files.
    ///
    /// # Errors
    /// Returns the reason why the list is unusable.
    pub(super) fn read(file: &Path, installation: &Path) -> io::Result<Self> {
        if !file.is_absolute() {
            return Err(io::Error::other("it is a relative path"));
        }
        let mut list = PageList::decode(&pages::read_trusted(file)?)?;
        if !list.files.iter().any(|file| file.path.starts_with(installation)) {
            return Err(io::Error::other("it was recorded for a different cuDNN"));
        }
        // After an update of cuDNN, the list is outdated and must be recorded again. An updated driver only removes the
        // driver's file from the list. Other files in the list are ignored, because this process has no reason to open
        // them.
        let mut is_old = false;
        list.files.retain(|FilePages { path, size, modified, .. }| {
            let is_current = pages::regular_file(path).is_ok_and(|(now, time, _)| (now, time) == (*size, *modified));
            is_old |= !is_current && path.starts_with(installation);
            is_current && is_wanted(path)
        });
        if is_old { Err(io::Error::other("cuDNN has changed since")) } else { Ok(list) }
    }
}

/// Returns the path of the list in the environment. Secure-execution mode ignores it.
pub(super) fn file_from_environment() -> Option<PathBuf> {
    let value = std::env::var_os(FILE_VARIABLE).filter(|value| !value.is_empty() && !is_secure_execution());
    value.map(PathBuf::from)
}

/// Returns whether the path is a library of cuDNN, CUDA or the driver. Lists contain only such files.
#[must_use]
pub fn is_wanted(path: &Path) -> bool {
    let name = path.file_name().map_or(&[][..], |name| name.as_encoded_bytes());
    name.starts_with(b"libcu") || name.starts_with(b"libnv")
}

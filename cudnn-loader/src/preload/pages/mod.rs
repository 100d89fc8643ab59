//! Lists of the pages that cuDNN maps when it starts. A list that is recorded after one start lets later starts read
//! the pages ahead.
//!
//! A preload uses a list if it finds one. Record a list with `cudnn-doctor preload --keep` or in a Rust program:
//!
//! ```no_run
//! use cudnn_loader::preload::pages::PageList;
//!
//! // ... cuDNN was used ...
//! let list = PageList::of_process(std::process::id())?;
//! std::fs::write("/opt/app/app.pages", list.encode())?; // used with CUDNN_LOADER_PAGES=/opt/app/app.pages
//! # Ok::<(), std::io::Error>(())
//! ```

mod format;
mod place;
mod record;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use place::FILE_VARIABLE;
pub(super) use place::ListLocations;

use cudnn_os::pages;

/// The file pages that cuDNN needs when it starts, for one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageList {
    installation: PathBuf,
    program: Option<PathBuf>,
    files: Vec<FilePages>,
}

/// The pages of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilePages {
    /// The file.
    pub path: PathBuf,
    /// The file's size in bytes. A file with a changed size or time is ignored.
    pub size: u64,
    /// The modification time, in seconds since 1970.
    pub modified: i64,
    /// The pages as byte ranges, in ascending order.
    pub ranges: Vec<Range<u64>>,
}

impl FilePages {
    /// Returns the total size of the pages in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()
    }

    /// Returns whether the file is unchanged.
    fn is_current(&self) -> bool {
        pages::regular_file(&self.path).is_ok_and(|(size, modified, _)| (size, modified) == (self.size, self.modified))
    }
}

impl PageList {
    /// Records the pages that a process has mapped from the libraries of cuDNN, CUDA and the driver. The process must
    /// have used cuDNN, and the system must allow this process to inspect it. Linux only.
    ///
    /// # Errors
    /// Fails if the process's mappings or files are unreadable, or if cuDNN is not loaded.
    pub fn of_process(process: u32) -> io::Result<Self> {
        record::record(process)
    }

    /// Makes the list apply to all programs that use this installation, rather than only to programs in the process's
    /// directory.
    #[must_use]
    pub fn for_all_programs(mut self) -> Self {
        self.program = None;
        self
    }

    /// Returns the installation's directory.
    #[must_use]
    pub fn installation(&self) -> &Path {
        &self.installation
    }

    /// Returns the files, in the order of use.
    #[must_use]
    pub fn files(&self) -> &[FilePages] {
        &self.files
    }

    /// Returns the list's file name in the directory of compiled plans. It differs between installations and program
    /// directories.
    #[must_use]
    pub fn file_name(&self) -> String {
        place::file_name(&self.installation, self.program.as_deref())
    }

    /// Returns the contents of the list's file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        format::encode(self)
    }

    /// Parses the contents of a list's file.
    ///
    /// # Errors
    /// Fails if the contents are damaged or have a different format.
    pub fn decode(content: &[u8]) -> io::Result<Self> {
        format::decode(content)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the list of pages is damaged"))
    }
}

/// Makes the kernel read the pages of one file, if the file has not changed.
pub(super) fn request(file: &FilePages) -> io::Result<()> {
    if !file.is_current() {
        return Err(io::Error::other("the file has changed"));
    }
    pages::request(&file.path, &file.ranges)
}

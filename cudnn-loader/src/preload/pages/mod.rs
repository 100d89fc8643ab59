//! Kept lists of the pages that a start of cuDNN maps: recorded once, after a start, and asked for at the next ones
//! before anything waits for them. This must not know the steps and threads of a preload.
//!
//! A preload uses a list if there is one. `cudnn-doctor preload --keep` keeps one, and so does a Rust program:
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
pub(super) use place::Places;

use cudnn_os::pages;

/// The pages of the files that a start of cuDNN needs, for one installation.
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
    /// Its size in bytes. Pages of a file of another size or time are not asked for.
    pub size: u64,
    /// When it was changed last, in seconds since 1970.
    pub modified: i64,
    /// The pages, as ranges of bytes, in order.
    pub ranges: Vec<Range<u64>>,
}

impl FilePages {
    /// The bytes of the pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()
    }

    /// Whether the file is still what it was.
    fn is_current(&self) -> bool {
        pages::regular_file(&self.path).is_ok_and(|(size, modified, _)| (size, modified) == (self.size, self.modified))
    }
}

impl PageList {
    /// What a process that has used cuDNN has mapped: of the libraries of cuDNN, CUDA and the driver. Linux only; the
    /// system has to allow this process to look at the other one.
    ///
    /// # Errors
    /// What could not be read, or that the process has not loaded cuDNN.
    pub fn of_process(process: u32) -> io::Result<Self> {
        record::record(process)
    }

    /// As a list for all programs that use this installation, and not for those in the process's directory alone.
    #[must_use]
    pub fn for_all_programs(mut self) -> Self {
        self.program = None;
        self
    }

    /// The installation's directory.
    #[must_use]
    pub fn installation(&self) -> &Path {
        &self.installation
    }

    /// The files, in the order in which a start needs them.
    #[must_use]
    pub fn files(&self) -> &[FilePages] {
        &self.files
    }

    /// The name of the list's file beside compiled plans: another one for each installation and program directory.
    #[must_use]
    pub fn file_name(&self) -> String {
        place::file_name(&self.installation, self.program.as_deref())
    }

    /// The content of the list's file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        format::encode(self)
    }

    /// Reads such a content.
    ///
    /// # Errors
    /// It is damaged, or of another format.
    pub fn decode(content: &[u8]) -> io::Result<Self> {
        format::decode(content)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the list of pages is damaged"))
    }
}

/// Makes the kernel read pages of one file, if it has not changed.
pub(super) fn request(file: &FilePages) -> io::Result<()> {
    if !file.is_current() {
        return Err(io::Error::other("the file has changed"));
    }
    pages::request(&file.path, &file.ranges)
}

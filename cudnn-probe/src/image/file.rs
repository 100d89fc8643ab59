//! Opens library files of any format.

use std::ops::Range;
use std::path::Path;

use cudnn_os::files::{Opened, open_regular};

use crate::error::ProbeError;
use crate::platform::{Architecture, Os};

use super::elf::Elf;
use super::file_data::FileData;
use super::format::Format;
#[cfg(feature = "windows")]
use super::pe::Pe;

/// An open file that starts like a library.
pub(super) struct LibraryFile {
    pub(super) data: FileData,
    pub(super) os: Os,
}

impl LibraryFile {
    /// Opens a library and determines the operating system from the first bytes.
    pub(super) fn open(path: &Path) -> Result<LibraryFile, ProbeError> {
        let explain = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => match std::fs::read_link(path) {
                Ok(target) => ProbeError::BrokenLink { target },
                Err(_) => ProbeError::NotFound,
            },
            _ => ProbeError::Unreadable { error: error.into() },
        };
        let (file, length) = match open_regular(path).map_err(explain)? {
            Opened::Regular(file, length) => (file, length),
            Opened::Other(kind) => return Err(ProbeError::NotRegularFile { kind: kind.into() }),
        };
        let data = FileData::new(file, length);
        let start = data.start(16).map_err(explain)?;
        let os = match start.as_slice() {
            [0x7f, b'E', b'L', b'F', ..] => Os::Linux,
            [b'M', b'Z', ..] => Os::Windows,
            _ => return Err(ProbeError::UnknownFormat { starts_with: start }),
        };
        Ok(LibraryFile { data, os })
    }

    /// Like [`LibraryFile::open`], but returns an error for a library of a different system.
    pub(super) fn open_for(path: &Path, wanted: Os) -> Result<LibraryFile, ProbeError> {
        let file = LibraryFile::open(path)?;
        if file.os == wanted { Ok(file) } else { Err(ProbeError::WrongOs { found: file.os, wanted }) }
    }

    /// Reads the headers. For a different processor, reading stops early.
    pub(super) fn parse(&self, wanted: Option<Architecture>) -> Result<Box<dyn Format + '_>, ProbeError> {
        match self.os {
            Os::Linux => Ok(Box::new(Elf::read(&self.data, wanted)?)),
            #[cfg(feature = "windows")]
            Os::Windows => Ok(Box::new(Pe::read(&self.data, wanted)?)),
            #[cfg(not(feature = "windows"))]
            Os::Windows => Err(ProbeError::WrongOs { found: self.os, wanted: Os::Linux }),
        }
    }

    pub(super) fn elf(&self) -> Result<Elf<'_>, ProbeError> {
        Elf::read(&self.data, None)
    }

    pub(super) fn parts_without_gpu_code(&self) -> Result<Vec<Range<u64>>, ProbeError> {
        // If a library contains no GPU code, assume empty code at the end.
        let length = self.data.length();
        let code = self.parse(None)?.gpu_code().unwrap_or(length..length);
        Ok(vec![0..code.start.min(length), code.end.min(length)..length])
    }
}

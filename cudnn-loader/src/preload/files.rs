//! Makes the kernel read the files of a start ahead: the pages of a recorded list, or else the parts that loading needs.
//! These exclude GPU code, which is most of a file and largely unused by any one program.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use cudnn_os::readahead;
use cudnn_probe::{Installation, Library, parts_without_gpu_code};

use super::engines::find_cublas;
use super::pages::PageList;
use super::parts::Preload;
use super::report::PreloadOutcome;
use crate::sync::primitives::lock;

/// The files to read, in the order of need. Threads share the files.
pub(super) struct Files<'a>(Mutex<Box<dyn Iterator<Item = FileToRead> + Send + 'a>>);

/// A file with the pages to read, if they are recorded.
pub(super) struct FileToRead {
    pub(super) path: PathBuf,
    pages: Option<Vec<Range<u64>>>,
}

impl<'a> Files<'a> {
    /// Returns the files of a list.
    pub(super) fn listed(list: PageList) -> Self {
        let files = list.files.into_iter();
        Files(Mutex::new(Box::new(files.map(|file| FileToRead { path: file.path, pages: Some(file.ranges) }))))
    }

    /// Returns graph's file, then the files that the engines need, which are the largest and delay the preload most,
    /// and then the other libraries.
    pub(super) fn of(preload: &'a Preload, installation: &'a Installation) -> Self {
        let loads = preload.loads_cudnn();
        let path = |library: &Library| installation.path(*library);
        let with_engines = preload.engines || !loads;
        // Found only when its turn comes, because finding it takes time.
        let cublas = std::iter::once_with(move || find_cublas(installation).filter(|_| with_engines)).flatten();
        let engines = if with_engines { Library::OPENED_BY_GRAPH } else { &[] };
        let libraries = if loads { &preload.libraries } else { Library::WITH_API };
        let others = engines.iter().chain(libraries).filter(|library| **library != Library::Graph);
        let files = [path(&Library::Graph)].into_iter().chain(cublas).chain(others.map(path));
        let files = files.filter(|path| path.exists());
        Files(Mutex::new(Box::new(files.map(|path| FileToRead { path, pages: None }))))
    }

    /// Returns the next file. Each file is returned once.
    pub(super) fn take_next(&self) -> Option<FileToRead> {
        lock(&self.0)?.next()
    }
}

impl FileToRead {
    /// Requests the file.
    ///
    /// Without recorded pages, the kernel reads only the start of a part. This is intentional: measurements showed that
    /// reading complete parts is slower, because programs never use most of the rest.
    pub(super) fn read(&self) -> Result<(), PreloadOutcome> {
        let skipped = |error: &dyn std::fmt::Display| PreloadOutcome::Skipped(error.to_string());
        match &self.pages {
            Some(pages) => readahead::request(&self.path, pages.iter().flat_map(requests)),
            None => {
                let parts = parts_without_gpu_code(&self.path).map_err(|error| skipped(&error))?;
                readahead::request(&self.path, parts)
            }
        }
        .map_err(|error| skipped(&error))
    }
}

/// Divides pages into requests that the kernel reads completely: the read-ahead size of a disk is 128 KiB by default.
fn requests(pages: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    const REQUEST: usize = 128 << 10;
    let end = pages.end;
    (pages.start..end).step_by(REQUEST).map(move |start| start..end.min(start.saturating_add(REQUEST as u64)))
}

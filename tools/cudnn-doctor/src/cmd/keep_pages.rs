//! `preload --keep`: saves a list of the pages that were mapped during startup, so that later preloads can request
//! them first.

use std::path::{Path, PathBuf};

use cudnn_loader::preload::pages::{FILE_VARIABLE, FilePages, PageList};
use cudnn_plan_store::{Settings, Store, write_pages};
use serde_json::{Value, json};

use crate::escape::Printable;
use crate::output::outln;
use crate::shell::set_variable;

/// A saved list.
pub(crate) struct KeptPages {
    list: PageList,
    file: PathBuf,
    /// Whether programs find the file without a variable.
    is_found: bool,
}

/// Saves the page list of this process for all programs, or of another process for the programs in its directory. The
/// list is written to `to`, or by default next to the plans.
///
/// # Errors
/// The reason why reading or writing failed.
pub(crate) fn keep(process: Option<u32>, to: Option<&Path>) -> Result<KeptPages, String> {
    let list = PageList::of_process(process.unwrap_or_else(std::process::id)).map_err(|error| error.to_string())?;
    let list = if process.is_some() && to.is_none() { list } else { list.for_all_programs() };
    if let Some(file) = to {
        write_pages(file, &list.encode()).map_err(|problem| problem.what().to_string().printable())?;
        return Ok(KeptPages { list, file: file.to_owned(), is_found: false });
    }
    let (settings, mut problems) = Settings::from_environment();
    let (store, more) = Store::open(&settings);
    problems.extend(more);
    match store.put_pages(&list.file_name(), &list.encode()) {
        Ok(Some(file)) => return Ok(KeptPages { list, file, is_found: true }),
        Ok(None) => {}
        Err(problem) => problems.push(problem),
    }
    // The store reports problems with the directory last.
    let reason = problems.last().map(|problem| problem.what().to_string().printable());
    Err(reason.unwrap_or_else(|| "there is no directory of plans".into()))
}

impl KeptPages {
    pub(crate) fn text(&self) {
        let (bytes, ranges) = self.sizes();
        let megabytes = bytes as f64 / f64::from(1 << 20);
        let files = self.list.files().len();
        outln!("\nkept: {megabytes:.1} MiB in {ranges} ranges of {files} files, in {}", self.file.printable());
        if self.is_found {
            outln!("Preloads of cuDNN in {} will request these pages first.", self.list.installation().printable());
        } else {
            outln!("To use it: {}", set_variable(FILE_VARIABLE, &self.file));
        }
    }

    pub(crate) fn value(&self) -> Value {
        let (bytes, ranges) = self.sizes();
        json!({
            "file": self.file.to_string_lossy(),
            "installation": self.list.installation().to_string_lossy(),
            "files": self.list.files().len(),
            "ranges": ranges,
            "bytes": bytes,
        })
    }

    fn sizes(&self) -> (u64, usize) {
        let files = self.list.files();
        (files.iter().map(FilePages::bytes).sum(), files.iter().map(|file| file.ranges.len()).sum())
    }
}

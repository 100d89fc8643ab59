//! Finds and checks the files with the values of tensors, which are next to a capture.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use cudnn_replay::replay::open_values;
use cudnn_store::captures::{Capture, DataRecord, Record};

const MAX_NAMED: usize = 20;

/// Returns the records of intact files, without duplicates.
pub(super) fn intact<'a>(capture: &'a Capture, dir: &Path) -> Vec<&'a DataRecord> {
    let mut names = BTreeSet::new();
    records(capture).filter(|data| open(data, dir).is_ok() && names.insert(data.file.as_str())).collect()
}

/// Returns the problems of the files, in sentences.
pub(super) fn problems(capture: &Capture, dir: &Path) -> Vec<String> {
    let mut names = BTreeSet::new();
    let distinct = records(capture).filter(|data| names.insert((data.file.as_str(), data.bytes)));
    let problems =
        distinct.filter_map(|data| Some(format!("the data file {:?} {}", data.file, open(data, dir).err()?)));
    bounded(problems)
}

/// Returns at most [`MAX_NAMED`] problems, and the number of the others.
pub(super) fn bounded(mut problems: impl Iterator<Item = String>) -> Vec<String> {
    let mut named: Vec<String> = problems.by_ref().take(MAX_NAMED).collect();
    let rest = problems.count();
    if rest > 0 {
        named.push(format!("{rest} more problems of this kind"));
    }
    named
}

fn records(capture: &Capture) -> impl Iterator<Item = &DataRecord> {
    capture.records.iter().filter_map(|record| if let Record::Data(data) = record { Some(data) } else { None })
}

/// Opens the file of a record. An error completes a sentence.
pub(super) fn open(data: &DataRecord, dir: &Path) -> Result<File, String> {
    match open_values(dir, &data.file) {
        Ok((file, size)) if size == data.bytes => Ok(file),
        Ok((_, size)) => Err(format!("has {size} bytes instead of {}", data.bytes)),
        Err(reason) => Err(format!("is unreadable: {reason}")),
    }
}

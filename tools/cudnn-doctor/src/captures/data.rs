//! Finds and checks the files with the values of tensors, which are next to a capture.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use cudnn_capture_file::{Capture, Data, Record};

/// The maximum number of problems that are named.
const MAX_NAMED: usize = 20;

/// Returns the records whose files are intact, without duplicates.
pub(super) fn intact<'a>(capture: &'a Capture, dir: &Path) -> Vec<&'a Data> {
    let mut names = BTreeSet::new();
    records(capture).filter(|data| problem(data, dir).is_none() && names.insert(data.file.as_str())).collect()
}

/// Returns the reasons why files are unusable, in sentences.
pub(super) fn problems(capture: &Capture, dir: &Path) -> Vec<String> {
    let mut names = BTreeSet::new();
    let distinct = records(capture).filter(|data| names.insert((data.file.as_str(), data.bytes)));
    let problems = distinct.filter_map(|data| Some(format!("the data file {:?} {}", data.file, problem(data, dir)?)));
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

/// Returns whether this is the name of a file without a directory, on every operating system.
pub(super) fn is_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_normal = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    is_normal && !name.contains(['/', '\\', ':', '\0'])
}

fn records(capture: &Capture) -> impl Iterator<Item = &Data> {
    capture.records.iter().filter_map(|record| if let Record::Data(data) = record { Some(data) } else { None })
}

/// Returns the reason why the file of a record is unusable, as the rest of a sentence.
fn problem(data: &Data, dir: &Path) -> Option<String> {
    if !is_file_name(&data.file) {
        return Some("is outside of the directory of the capture".to_owned());
    }
    // A link could lead to a private file.
    match dir.join(&data.file).symlink_metadata() {
        Err(error) => Some(format!("is unreadable: {error}")),
        Ok(metadata) if !metadata.is_file() => Some("is a link or a directory".to_owned()),
        Ok(metadata) if metadata.len() != data.bytes => {
            Some(format!("has {} bytes instead of {}", metadata.len(), data.bytes))
        }
        Ok(_) => None,
    }
}

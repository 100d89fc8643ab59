//! Finds and checks the files with the values of tensors, which are next to a capture.

use std::collections::BTreeSet;
use std::path::Path;

use cudnn_replay::replay::open_values;
use cudnn_store::captures::{Capture, DataRecord, Record};

const MAX_NAMED: usize = 20;

/// Returns the problems of the files, in sentences.
pub(super) fn problems(capture: &Capture, dir: &Path) -> Vec<String> {
    let mut names = BTreeSet::new();
    let distinct = records(capture).filter(|data| names.insert((data.file.as_str(), data.bytes)));
    let problems =
        distinct.filter_map(|data| Some(format!("the data file {:?} {}", data.file, check(data, dir).err()?)));
    bounded(problems)
}

/// Returns at most [`MAX_NAMED`] problems, and the number of the others.
fn bounded(mut problems: impl Iterator<Item = String>) -> Vec<String> {
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

/// Checks the file of a record. An error completes a sentence.
fn check(data: &DataRecord, dir: &Path) -> Result<(), String> {
    match open_values(dir, &data.file) {
        Ok((_, size)) if size == data.bytes => Ok(()),
        Ok((_, size)) => Err(format!("has {size} bytes instead of {}", data.bytes)),
        Err(reason) => Err(format!("is unreadable: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_data_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["missing", "short", "../app.cudnncap", "/etc/passwd", "link", "", "C:x", "good"];
        let record = |file: &str| {
            let file = serde_json::Value::from(file);
            format!(r#"{{"record":"data","plan":0,"execution":1,"uid":1,"is_after":false,"file":{file},"bytes":4}}"#)
        };
        let start = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;
        let capture = Capture::parse(format!("{start}\n{}\n", names.map(record).join("\n")).as_bytes()).unwrap();
        std::fs::write(dir.path().join("short"), "abc").unwrap();
        std::fs::write(dir.path().join("good"), "abcd").unwrap();
        #[cfg(all(test, unix))]
        std::os::unix::fs::symlink(dir.path().join("good"), dir.path().join("link")).unwrap();
        let problems = problems(&capture, dir.path());
        let expected = [
            "\"missing\" is unreadable",
            "\"short\" has 3 bytes instead of 4",
            "\"../app.cudnncap\" is unreadable: the name contains a directory",
            "\"/etc/passwd\" is unreadable: the name",
            "\"link\" is unreadable",
            "\"\" is unreadable: the name",
            "\"C:x\" is unreadable: the name",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
    }
}

//! Checks that diagnosing code queries the system only through `cudnn_probe::facts`, because otherwise saved facts
//! would be incomplete. Code that changes the system (`fix`, `install`) reads it directly.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Diagnosing code, below the root.
const DIAGNOSING: [&str; 23] = [
    "cudnn-probe/src/layers.rs",
    "cudnn-probe/src/ld_so",
    "cudnn-probe/src/library.rs",
    "cudnn-probe/src/search",
    "cudnn-probe/src/select.rs",
    "cudnn-probe/src/dll_search",
    "doctor/cudnn-cli/src/command.rs",
    "doctor/cudnn-cli/src/path.rs",
    "doctor/cudnn-cli/src/platform.rs",
    "doctor/cudnn-cli/src/programs.rs",
    "doctor/cudnn-cli/src/quoting.rs",
    "doctor/cudnn-cli/src/shell.rs",
    "doctor/cudnn-frameworks/src/environment",
    "doctor/cudnn-frameworks/src/framework",
    "doctor/cudnn-frameworks/src/installation",
    "doctor/cudnn-frameworks/src/opens",
    "doctor/cudnn-frameworks/src/package",
    "doctor/cudnn-frameworks/src/files.rs",
    "doctor/cudnn-frameworks/src/jetson.rs",
    "doctor/cudnn-frameworks/src/nvrtc.rs",
    "doctor/cudnn-frameworks/src/shim_names.rs",
    "doctor/cudnn-frameworks/src/survey.rs",
    "doctor/cudnn-rules/src",
];

/// The ways to read the system.
const READS: [&str; 17] = [
    "std::fs::read",
    "std::fs::metadata",
    "std::fs::symlink_metadata",
    "std::fs::canonicalize",
    "std::env::var",
    "std::env::current_",
    "std::path::absolute",
    "cudnn_os::files::canonicalize",
    "cudnn_os::files::is_executable",
    "cudnn_os::rights::",
    ".exists()",
    ".try_exists()",
    ".is_file()",
    ".is_dir()",
    ".is_symlink()",
    ".metadata()",
    ".symlink_metadata()",
];

/// Parts of lines that process or provide a result.
const ANSWERS: [&str; 3] = ["kind.is_", "metadata.is_", "file_type()"];

#[test]
fn diagnosing_code_uses_facts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    DIAGNOSING.iter().for_each(|place| collect(&root.join(place), &mut files));
    assert!(files.len() > 100, "{}", files.len());
    let mut reading = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        for (number, line) in without_tests(&source) {
            let is_read =
                READS.iter().any(|read| line.contains(read)) && !ANSWERS.iter().any(|answer| line.contains(answer));
            if is_read && !line.trim_start().starts_with("//") {
                reading.push(format!("{}:{number}: {}", file.strip_prefix(root).unwrap().display(), line.trim()));
            }
        }
    }
    assert!(reading.is_empty(), "ask cudnn_probe::facts instead:\n{}", reading.join("\n"));
}

fn collect(place: &Path, files: &mut Vec<PathBuf>) {
    if place.is_file() {
        return files.push(place.to_owned());
    }
    for path in std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() || path.extension().is_some_and(|kind| kind == "rs") {
            collect(&path, files);
        }
    }
}

/// Returns the numbered lines of a source file outside of test modules.
fn without_tests(source: &str) -> Vec<(usize, &str)> {
    let mut is_test = false;
    let mut lines = Vec::new();
    for (index, line) in source.lines().enumerate() {
        is_test |= line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        if !is_test {
            lines.push((index + 1, line));
        }
        is_test &= line != "}";
    }
    lines
}

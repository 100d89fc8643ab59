//! Checks that only `cudnn-os` depends on the operating system: `src` of other crates must not contain
//! `cfg(target_os)`, `cfg(unix)` or `cfg(windows)`. Unit tests may use `cfg(all(test, unix))` or `cfg_attr(windows,
//! ignore = "reason")`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Exempt directories. The declarations of `cudnn-sys` name their DLLs, and the package `tests` contains only tests.
const ALLOWED: [&str; 3] = ["cudnn-os/src", "cudnn-sys/src", "tests"];

#[test]
fn only_one_crate_depends_on_the_operating_system() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    collect(root, &mut files);
    assert!(files.len() > 300, "{}", files.len());
    let mut asking = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        if ALLOWED.iter().any(|place| Path::new(&name).starts_with(place)) {
            continue;
        }
        for line in lines_that_ask(&std::fs::read_to_string(&file).unwrap()) {
            asking.push((name.clone(), line));
        }
    }
    assert!(asking.is_empty(), "move these to cudnn-os: {asking:#?}");
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, files);
        } else if name.ends_with(".rs") && path.iter().any(|part| part == "src") {
            files.push(path);
        }
    }
}

/// Returns a source file's lines that ask for the operating system outside of tests.
fn lines_that_ask(source: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.starts_with("//") && !line.contains("'cfg(") && !line.contains("\"windows\"");
    let is_test = |line: &str| line.contains("cfg(all(test, ") || line.contains("ignore = ");
    let asks = |line: &&str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_question = words.any(|word| ["target_os", "target_family", "unix", "windows"].contains(&word));
        line.contains("cfg") && is_question && !is_test(line)
    };
    source.lines().map(str::trim_start).filter(is_code).filter(asks).map(str::to_owned).collect()
}

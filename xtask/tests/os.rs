//! Checks that only the crate `cudnn-os` depends on the operating system: the `src` of other crates must not contain
//! `cfg(target_os)`, `cfg(unix)` or `cfg(windows)`. Exempt are tests, benchmarks, examples, and the DLL links of
//! `cudnn-sys`. Unit tests in `src` use `cfg(all(test, unix))` or `cfg_attr(windows, ignore = "reason")`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Directories and files that may use such conditions, below the root. The declarations of `cudnn-sys` name the DLLs
/// that contain them, and the package `tests` contains only tests.
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

#[test]
fn conditions_are_only_found_in_code() {
    let found = |source| lines_that_ask(source).len();
    for source in [
        "#[cfg(unix)]",
        "#![cfg(target_os = \"linux\")]",
        "#[cfg(all(\n    test,\n    not(windows)\n))]",
        "let x = cfg!(windows);",
        "#[cfg_attr(any(unix, windows), path = \"a.rs\")]",
        "let quote = '\"'; #[cfg(unix)]",
    ] {
        assert_eq!(found(source), 1, "{source}");
    }
    for source in [
        "// #[cfg(unix)]",
        "/* cfg!(unix) */",
        "\"[target.'cfg(unix)']\"",
        "r#\"cfg(windows)\"#",
        "#[cfg(feature = \"windows\")]",
        "#[cfg_attr(miri, ignore = \"not on windows\")]",
        "#[cfg_attr(not(windows), ignore = \"reason\")]",
        "#[cfg(all(test, unix))]",
        "#[cfg(target_arch = \"x86_64\")]",
        "fn windows() {}",
    ] {
        assert_eq!(found(source), 0, "{source}");
    }
}

/// Collects the Rust files in all `src` directories below a directory.
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

/// Returns the conditions in a source file that depend on the operating system.
fn lines_that_ask(source: &str) -> Vec<String> {
    let code = without_texts(source);
    let mut found = Vec::new();
    for start in ["cfg(", "cfg!(", "cfg_attr("] {
        for (index, _) in code.match_indices(start) {
            // Skip matches within a longer name.
            if code[..index].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let condition = condition(&code[index + start.len()..], start == "cfg_attr(");
            let after = code[index + start.len() + condition.len()..].trim_start_matches([',', ' ']);
            let is_of_test = after.starts_with("ignore") || condition.starts_with("all(test,");
            let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
            if !is_of_test && words.any(|word| ["target_os", "target_family", "unix", "windows"].contains(&word)) {
                found.push(format!("{start}{condition}"));
            }
        }
    }
    found
}

/// Returns the text up to the closing parenthesis, or to the first comma outside of nested parentheses.
fn condition(text: &str, to_comma: bool) -> &str {
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0 || to_comma && depth == 0 && c == ','
    });
    &text[..end.unwrap_or(text.len())]
}

/// Returns the code without comments and string contents.
fn without_texts(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            'r' if rest.starts_with("r#\"") => rest.find("\"#").map_or(rest.len(), |end| end + 2),
            '"' => {
                let mut is_escaped = false;
                let end = rest[1..].find(|c| {
                    let is_end = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    is_end
                });
                end.map_or(rest.len(), |end| end + 2)
            }
            // A character literal rather than a lifetime.
            '\'' if rest.starts_with("'\\''") || rest.starts_with("'\\\\'") => 4,
            '\'' if rest.starts_with("'\"'") => 3,
            _ => 0,
        };
        if skipped == 0 {
            code.push(c);
        }
        rest = &rest[skipped.max(c.len_utf8())..];
    }
    code
}

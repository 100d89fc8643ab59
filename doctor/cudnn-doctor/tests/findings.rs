//! Compares the page about findings, `docs/findings.md`, with the doctor's table. `CUDNN_TESTS_WRITE=1` writes it.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::process::Command;

use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");

/// Returns all kinds of findings as the doctor lists them.
fn kinds() -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(["facts", "--json"]).output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let kinds = value.get("findings").and_then(Value::as_array).unwrap().clone();
    assert!(kinds.len() > 50, "{kinds:?}");
    kinds
}

fn text<'a>(kind: &'a Value, key: &str) -> &'a str {
    kind.get(key).and_then(Value::as_str).unwrap()
}

/// Returns the page with a section for each kind of finding.
fn page(kinds: &[Value]) -> String {
    let mut page = String::from(
        "# Findings of the doctor\n\n\
         The commands of `cudnn-doctor` print these codes, and the meaning of a code never changes. A finding has a message\n\
         (what happened and where) and help: what to do on your machine, as commands or as the number of a step in the plan\n\
         at the end of the report. `--verbose` adds the paths, versions and rules behind it.\n",
    );
    for kind in kinds {
        let [code, severity, title, cause] = ["code", "severity", "title", "cause"].map(|key| text(kind, key));
        let section = wrapped(&format!("**{severity}: {title}.** {cause}"));
        let _ = write!(page, "\n## {code}\n\n{section}");
    }
    page
}

/// Wraps text at the line length of Markdown files.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        if width > 0 && width + 1 + word.len() > 118 {
            wrapped.push('\n');
            width = 0;
        }
        if width > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += word.len();
    }
    wrapped.push('\n');
    wrapped
}

#[test]
fn the_page_explains_every_finding_and_no_other() {
    let expected = page(&kinds());
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        std::fs::write(PAGE, &expected).unwrap();
    }
    let found = std::fs::read_to_string(PAGE).unwrap();
    assert_eq!(found, expected, "run with CUDNN_TESTS_WRITE=1");
}

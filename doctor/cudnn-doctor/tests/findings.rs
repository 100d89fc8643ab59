//! Compares the pages about findings, `docs/findings`, and their entries in `docs/SUMMARY.md` with the doctor's table.
//! `CUDNN_TESTS_WRITE=1` writes them.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

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

/// Returns the page about a kind of finding.
fn page(kind: &Value) -> String {
    let [code, severity, title, cause] = ["code", "severity", "title", "cause"].map(|key| text(kind, key));
    let mut page = format!("# {code}: {title}\n\n{}", wrapped(&format!("**Severity: {severity}.** {cause}")));
    if let Some(example) = example(code) {
        let _ = write!(page, "\nFor example:\n\n```text\n{example}\n```\n");
    }
    page
}

/// Returns the finding as a report shows it without `--verbose`, if there are saved facts that lead to it.
fn example(code: &str) -> Option<String> {
    let file = format!("{}/tests/facts/{code}.txt", env!("CARGO_MANIFEST_DIR"));
    let report = std::fs::read_to_string(file).ok()?;
    let is_finding = |part: &&str| part.split(':').next().is_some_and(|label| label.ends_with(&format!("[{code}]")));
    let finding = report.split("\n\n").find(is_finding).unwrap_or_else(|| panic!("no {code}: {report}"));
    let is_verbose = |line: &str| line.starts_with("  = note: ") || line.starts_with("  = read more: ");
    Some(finding.lines().filter(|line| !is_verbose(line)).collect::<Vec<_>>().join("\n"))
}

/// Returns the page that lists all kinds of findings.
fn index(kinds: &[Value]) -> String {
    let mut index = String::from(
        "# Findings of the doctor\n\n\
         The commands of `cudnn-doctor` print these codes, and the meaning of a code never changes.\n\n\
         A finding has a message (what happened and where) and help (what to do on your machine, as commands or as\n\
         the number of a step in the plan at the end of the report). With `--verbose`, it also has notes (the paths,\n\
         versions and rules behind it).\n\n\
         | code | severity | finding |\n| --- | --- | --- |\n",
    );
    for kind in kinds {
        let [code, severity, title] = ["code", "severity", "title"].map(|key| text(kind, key));
        let _ = writeln!(index, "| [{code}]({code}.md) | {severity} | {title} |");
    }
    index
}

/// Replaces the entries of findings in the table of contents.
fn with_entries(summary: &str, kinds: &[Value]) -> String {
    let mut replaced = String::new();
    for line in summary.lines().filter(|line| !line.contains("(findings/C")) {
        let _ = writeln!(replaced, "{line}");
        if line.contains("(findings/README.md)") {
            for kind in kinds {
                let [code, title] = ["code", "title"].map(|key| text(kind, key));
                let _ = writeln!(replaced, "  - [{code}: {title}](findings/{code}.md)");
            }
        }
    }
    replaced
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
fn every_finding_has_a_page_and_no_other_page_exists() {
    let kinds = kinds();
    let mut pages: BTreeMap<String, String> =
        kinds.iter().map(|kind| (format!("{}.md", text(kind, "code")), page(kind))).collect();
    pages.insert("README.md".to_owned(), index(&kinds));
    let dir = Path::new(DOCS).join("findings");
    let summary = Path::new(DOCS).join("SUMMARY.md");
    let contents = std::fs::read_to_string(&summary).unwrap();
    let expected_contents = with_entries(&contents, &kinds);
    if std::env::var_os("CUDNN_TESTS_WRITE").is_some() {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        pages.iter().for_each(|(name, page)| std::fs::write(dir.join(name), page).unwrap());
        std::fs::write(&summary, &expected_contents).unwrap();
        return;
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let page = std::fs::read_to_string(dir.join(&name)).unwrap();
        found.insert(name, page);
    }
    let differing: BTreeSet<&String> =
        found.keys().chain(pages.keys()).filter(|name| found.get(*name) != pages.get(*name)).collect();
    assert!(differing.is_empty(), "these pages differ: {differing:?}; run with CUDNN_TESTS_WRITE=1");
    assert_eq!(contents, expected_contents, "run with CUDNN_TESTS_WRITE=1");
}

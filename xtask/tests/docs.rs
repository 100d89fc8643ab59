//! Checks facts about the pages in `docs` that mdBook and the link checker ignore.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Adds all Markdown files below `dir`, relative to `docs`.
fn pages(docs: &Path, dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(docs, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path.strip_prefix(docs).unwrap().to_str().unwrap().replace('\\', "/"));
        }
    }
}

/// mdBook leaves out pages that are not listed.
#[test]
fn every_page_is_in_the_table_of_contents() {
    let docs = root().join("docs");
    let mut existing = BTreeSet::new();
    pages(&docs, &docs, &mut existing);
    assert!(existing.remove("SUMMARY.md"), "{existing:?}");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> =
        contents.split("](").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned()).collect();
    let missing: Vec<&String> = existing.difference(&listed).collect();
    assert!(missing.is_empty(), "add these pages to docs/SUMMARY.md: {missing:?}");
}

#[test]
fn every_file_with_data_is_a_page_of_the_site() {
    let script = fs::read_to_string(root().join("book/pages.py")).unwrap();
    for entry in fs::read_dir(root().join("docs/data")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert_eq!(script.matches(&format!("\"{name}\": ")).count(), 2, "{name}");
    }
}

#[test]
fn the_readme_counts_the_aborts_of_the_fault_matrix() {
    let matrix = fs::read_to_string(root().join("docs/data/fault-matrix.csv")).unwrap();
    let records: Vec<Vec<String>> = matrix.lines().skip(1).map(fields).filter(|record| record[1] != "none").collect();
    let count = |column: usize| {
        let calls: Vec<&str> =
            records.iter().map(|record| record[column].as_str()).filter(|cell| *cell != "-").collect();
        let is_fatal = |cell: &&&str| ["aborts", "crashes", "hangs"].iter().any(|outcome| cell.starts_with(outcome));
        (calls.iter().filter(is_fatal).count(), calls.len())
    };
    let [(older, all_older), (newer, all_newer), (ours, all_ours)] = [count(3), count(4), count(5)];
    assert_eq!(ours, 0);
    let readme = fs::read_to_string(root().join("README.md")).unwrap().replace('\n', " ");
    let stated = format!(
        "in {older} of {all_older} calls (9.10.2) and in {newer} of {all_newer} (9.28.0), but this project in none of {all_ours}"
    );
    assert!(readme.contains(&stated), "the README lacks: {stated}");
}

/// Splits a record of a CSV file.
fn fields(record: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in record.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().unwrap().push(character),
        }
    }
    fields
}

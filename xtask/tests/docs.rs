//! Checks facts about the pages in `docs` that mdBook and the link checker ignore.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Adds the paths of all Markdown files in `dir` and below, relative to `docs`.
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
fn the_start_page_contains_every_error_message_of_the_readme() {
    let table = |file: &str| -> BTreeMap<String, String> {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let (_, rest) = text.split_once("## Your error message").unwrap();
        let section = rest.split("\n## ").next().unwrap();
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().replace("docs/", "")).collect::<Vec<_>>();
        section
            .lines()
            .filter(|line| line.starts_with("| `") && line.contains("cudnn-doctor"))
            .map(|line| (cells(line)[1].clone(), cells(line)[2].clone()))
            .collect()
    };
    let start = table("docs/README.md");
    let readme = table("README.md");
    assert!(readme.len() >= 6, "{readme:?}");
    for (message, command) in readme {
        assert_eq!(start.get(&message), Some(&command), "{message}");
    }
}

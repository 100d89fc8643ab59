//! The README of each crate that is to be published says how to depend on it: by path or by git, because the names on the
//! package index are free, or somebody else's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// The directories of the crates that are to be published.
fn published() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dirs = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let is_published = |dir: &PathBuf| {
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml"));
        manifest.is_ok_and(|text| !text.contains("publish = false"))
    };
    dirs.filter(is_published).collect()
}

#[test]
fn each_readme_says_how_to_depend_on_the_crate() {
    let published = published();
    assert!(published.len() >= 11, "{published:?}");
    for dir in published {
        let name = dir.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(dir.join("README.md")).unwrap();
        let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        // Somebody who types the usual command must read what it would do.
        let reason = if name == "cudnn-sys" {
            "by another author"
        } else {
            "is not on the package index yet, and the `cudnn-sys` there is another project's"
        };
        assert!(text.contains(reason), "{name}: {reason}");
        let is_warned = |line: &str| !line.contains("cargo add") || line.contains("abandoned crate");
        assert!(text.lines().all(is_warned), "{name} advises `cargo add`");
        if name == "cudnn-doctor" {
            let install = "cargo install --path cudnn-shim/cudnn-doctor";
            assert!(text.contains(install) && text.contains("--git URL"), "{text}");
            continue;
        }
        assert!(text.contains(&format!("{name} = {{ path = \"../cudnn-shim/{name}\"")), "{name}: no path");
        assert!(text.contains("or `git = \"URL\"`"), "{name}: no git");
    }
}

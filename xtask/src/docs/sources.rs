//! Selects the Markdown files that become pages, and their addresses on the site. Independent of their contents.

use std::path::{Path, PathBuf};

use super::markdown::Document;
use crate::error::Result;

/// A checkout: the root directory, and the Markdown files that become pages.
pub(crate) struct Tree {
    root: PathBuf,
    pages: Vec<String>,
}

impl Tree {
    /// Selects the pages in the root, in `docs` and its subdirectories, and the READMEs of all packages.
    pub(crate) fn new(root: PathBuf) -> Result<Self> {
        let mut pages = Vec::new();
        for (name, path) in entries(&root)? {
            if name == "docs" {
                below(&path, "docs", &mut pages)?;
            } else if name.ends_with(".md") {
                pages.push(name);
            } else if !name.starts_with('.') && path.join("README.md").is_file() {
                pages.push(format!("{name}/README.md"));
            }
        }
        Ok(Tree { root, pages })
    }

    /// Reads the pages.
    pub(crate) fn documents(&self) -> Result<Vec<Document>> {
        let read = |source: &String| {
            let file = self.root.join(source);
            let text = std::fs::read_to_string(&file);
            let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            Ok(Document::new(source.clone(), address(source), &text))
        };
        self.pages.iter().map(read).collect()
    }

    /// Returns whether the repository contains this file or directory.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// Returns the files and directories in a directory, sorted by name.
fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))? {
        let entry = entry?;
        // Pages never have such names.
        let Ok(name) = entry.file_name().into_string() else { continue };
        entries.push((name, entry.path()));
    }
    entries.sort();
    Ok(entries)
}

fn below(dir: &Path, name: &str, pages: &mut Vec<String>) -> Result<()> {
    for (child, path) in entries(dir)? {
        let name = format!("{name}/{child}");
        if path.is_dir() {
            below(&path, &name, pages)?;
        } else if name.ends_with(".md") {
            pages.push(name);
        }
    }
    Ok(())
}

/// `docs` becomes the root of the site, and a README becomes the first page of its directory. The README of `docs`
/// takes the place of the repository's README, because it is written for readers of the site.
fn address(source: &str) -> String {
    let path = source.strip_prefix("docs/").unwrap_or(source);
    let path = path.strip_suffix(".md").unwrap_or(path);
    match path.strip_suffix("README") {
        Some("") if source == "README.md" => "about.html".to_owned(),
        Some(dir) => format!("{dir}index.html"),
        None => format!("{path}.html"),
    }
}

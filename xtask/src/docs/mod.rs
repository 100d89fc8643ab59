//! Implements `cargo xtask docs`, which builds a static documentation site with a search from the repository's
//! Markdown. The site needs no server and loads no external files. Independent of the pages' contents.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::workspace::root;

mod contents;
mod links;
mod markdown;
mod page;
mod search;
mod site_check;
mod sources;

use markdown::Document;
use sources::Tree;

/// A file in every generated site. A directory without it was not made by this command.
const INDEX: &str = "search-index.js";

/// Builds the site below cargo's target directory, and returns the first page.
pub(crate) fn build() -> Result<PathBuf> {
    let root = root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let dir = target.join("docs");
    build_into(&Tree::new(root)?, &dir)?;
    Ok(dir.join("index.html"))
}

/// Fails if a link or an anchor is dead, in the Markdown or on the site.
fn build_into(tree: &Tree, dir: &Path) -> Result<()> {
    let documents: Vec<Document> = tree.documents()?;
    fail_for(links::problems(tree, &documents))?;
    clear(dir)?;
    let examples = page::Examples::new(&documents);
    let contents = contents::groups(&documents);
    for document in &documents {
        put(dir, &document.address, &page::html(tree, &documents, &contents, &examples, document)?)?;
    }
    put(dir, "search.html", &page::search(&contents))?;
    put(dir, INDEX, &search::index(&documents))?;
    put(dir, "search.js", include_str!("assets/search.js"))?;
    put(dir, "style.css", include_str!("assets/style.css"))?;
    fail_for(site_check::problems(dir)?)
}

/// Removes the site that an earlier run made.
fn clear(dir: &Path) -> Result<()> {
    if dir.join(INDEX).exists() {
        std::fs::remove_dir_all(dir)?;
    } else if dir.exists() && std::fs::read_dir(dir)?.next().is_some() {
        let dir = dir.display();
        return Err(format!("{dir} exists, but `cargo xtask docs` did not make it; move it away").into());
    }
    Ok(())
}

fn put(dir: &Path, address: &str, text: &str) -> Result<()> {
    let file = dir.join(address);
    std::fs::create_dir_all(file.parent().unwrap_or(dir))?;
    std::fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()).into())
}

fn fail_for(problems: Vec<String>) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

#[cfg(test)]
mod tests;

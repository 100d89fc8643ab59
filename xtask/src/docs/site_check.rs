//! Reads the pages of a site like a browser, and finds dead links, dead anchors, and external resources. Independent of
//! the generator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::links::join_path;
use crate::error::Result;

/// Returns all problems, one per line.
pub(crate) fn problems(dir: &Path) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read(dir, "", &mut files)?;
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        files.iter().map(|(name, text)| (name.as_str(), attributes(text, "id").collect())).collect();
    let mut problems = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".html")) {
        let count = attributes(text, "id").count();
        if ids.get(name.as_str()).is_some_and(|ids| ids.len() != count) {
            problems.push(format!("{name}: two elements have the same id"));
        }
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in ["href", "src", "action"].iter().flat_map(|attribute| attributes(text, attribute)) {
            if ["https:", "http:", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let page = if path.is_empty() { Some(name.clone()) } else { join_path(folder, path) };
            let ids = page.as_deref().and_then(|page| ids.get(page));
            if ids.is_none_or(|ids| !anchor.is_empty() && !ids.contains(anchor)) {
                problems.push(format!("{name}: the link to {link} is dead"));
            }
        }
        for tag in ["<script", "<img", "<link", "<iframe", "<form"] {
            let loaded = text.split(tag).skip(1).filter_map(|rest| rest.split('>').next());
            for element in loaded.filter(|element| element.contains("://")) {
                problems.push(format!("{name}: {tag}{element}> loads from elsewhere"));
            }
        }
    }
    Ok(problems)
}

fn read(dir: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.insert(name, std::fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// Returns the values of an attribute. The pages quote them with `"`, and escape quotes elsewhere.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let values: Vec<&str> = text.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect();
    values.into_iter()
}

//! The table of contents, which each page shows: groups of pages in the order in which one reads them.

use super::links::joined;
use super::markdown::Document;

/// A heading of the table of contents, and its pages.
pub(crate) struct Group<'a> {
    pub(crate) title: &'static str,
    pub(crate) pages: Vec<&'a Document>,
}

/// The groups in their order, and how the paths of their pages begin. The longest beginning that fits a page decides.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["docs/README.md"]),
    ("Guide", &["docs/guide/"]),
    ("Reference", &["docs/"]),
    ("Design", &["docs/ARCHITECTURE.md", "docs/design/"]),
    ("Measurements", &["docs/measurements/"]),
    ("Crates", &[""]),
    ("Project", &["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]),
];

pub(crate) fn groups(documents: &[Document]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = GROUPS.iter().map(|(title, _)| Group { title, pages: Vec::new() }).collect();
    for page in documents {
        let title = title_of(&page.source);
        groups.iter_mut().filter(|group| group.title == title).for_each(|group| group.pages.push(page));
    }
    for group in &mut groups {
        group.pages.sort_by_key(|page| (page.dir().matches('/').count(), place(documents, page), &page.source));
    }
    groups.retain(|group| !group.pages.is_empty());
    groups
}

fn title_of(source: &str) -> &'static str {
    let fit =
        |prefixes: &[&str]| prefixes.iter().filter(|prefix| source.starts_with(**prefix)).map(|fit| fit.len()).max();
    GROUPS.iter().filter_map(|(title, prefixes)| Some((fit(prefixes)?, *title))).max().map_or("", |(_, title)| title)
}

/// A directory's README comes first, then the pages in the order of the README's links, then the others.
fn place(documents: &[Document], page: &Document) -> usize {
    let name = format!("{}README.md", page.dir());
    if page.source == name {
        return 0;
    }
    let leads_here = |link: &String| {
        let path = link.split('#').next().unwrap_or_default();
        joined(page.dir(), path).is_some_and(|path| path == page.source)
    };
    let readme = documents.iter().find(|readme| readme.source == name);
    readme.and_then(|readme| readme.links.iter().position(leads_here)).map_or(usize::MAX, |place| place + 1)
}

//! Builds the table of contents of all pages, which groups pages in reading order.

use super::links::join_path;
use super::markdown::Document;

/// A heading of the table of contents and the pages below it.
pub(crate) struct Group<'a> {
    pub(crate) title: &'static str,
    pub(crate) pages: Vec<&'a Document>,
}

/// The groups in order, with the path prefixes of their pages. The longest matching prefix wins.
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
        group.pages.sort_by_key(|page| (page.dir().matches('/').count(), position(documents, page), &page.source));
    }
    groups.retain(|group| !group.pages.is_empty());
    groups
}

fn title_of(source: &str) -> &'static str {
    let fit =
        |prefixes: &[&str]| prefixes.iter().filter(|prefix| source.starts_with(**prefix)).map(|fit| fit.len()).max();
    GROUPS.iter().filter_map(|(title, prefixes)| Some((fit(prefixes)?, *title))).max().map_or("", |(_, title)| title)
}

/// A directory's README comes first, then the pages in the order of the README's links, then all others.
fn position(documents: &[Document], page: &Document) -> usize {
    let name = format!("{}README.md", page.dir());
    if page.source == name {
        return 0;
    }
    let leads_here = |link: &String| {
        let path = link.split('#').next().unwrap_or_default();
        join_path(page.dir(), path).is_some_and(|path| path == page.source)
    };
    let readme = documents.iter().find(|readme| readme.source == name);
    readme.and_then(|readme| readme.links.iter().position(leads_here)).map_or(usize::MAX, |position| position + 1)
}

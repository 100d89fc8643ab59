//! What a link in a Markdown file leads to, and the links that lead nowhere. Fetches nothing.

use super::markdown::Document;
use super::sources::Tree;

/// The end of a link.
pub(crate) enum Target<'a> {
    /// A page of the site, and an anchor in it or nothing.
    Page(&'a Document, &'a str),
    /// Another file or directory of the repository: its path.
    File(String),
    /// Another site.
    Elsewhere,
}

/// Everything that is wrong with the links of the documents, one line each.
pub(crate) fn problems(tree: &Tree, documents: &[Document]) -> Vec<String> {
    let mut problems = Vec::new();
    for document in documents {
        for link in &document.links {
            if let Err(reason) = target(tree, documents, document, link) {
                problems.push(format!("{}: the link to {link}: {reason}", document.source));
            }
        }
        for name in &document.undefined {
            problems.push(format!("{}: the link [{name}] has no definition", document.source));
        }
    }
    problems
}

/// Follows a link of a document.
pub(crate) fn target<'a>(
    tree: &Tree,
    documents: &'a [Document],
    from: &'a Document,
    link: &'a str,
) -> Result<Target<'a>, String> {
    if let Some((scheme, rest)) = link.split_once(':').filter(|(scheme, _)| scheme.bytes().all(is_scheme)) {
        return elsewhere(scheme, rest).map(|()| Target::Elsewhere);
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let page = if path.is_empty() {
        Some(from)
    } else {
        let path = joined(from.dir(), path).ok_or("it leads out of the repository")?;
        let readme = format!("{path}/README.md").trim_start_matches('/').to_owned();
        let page = documents.iter().find(|page| page.source == path || page.source == readme);
        if page.is_none() {
            if !tree.has(&path) {
                return Err("there is no such file".to_owned());
            }
            return if anchor.is_empty() { Ok(Target::File(path)) } else { Err("only pages have anchors".to_owned()) };
        }
        page
    };
    let page = page.ok_or("there is no such page")?;
    if link.ends_with('#') || !anchor.is_empty() && !page.has_anchor(anchor) {
        return Err(format!("{} has no heading for that anchor", page.source));
    }
    Ok(Target::Page(page, anchor))
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+'
}

/// Is the address well-formed? Its server is not asked.
fn elsewhere(scheme: &str, rest: &str) -> Result<(), String> {
    if rest.chars().any(|letter| letter.is_whitespace() || letter.is_control() || "<>\"".contains(letter)) {
        return Err("it contains a character that an address cannot have".to_owned());
    }
    let is_host = |host: &str| {
        host.contains('.')
            && host
                .split('.')
                .all(|label| !label.is_empty() && label.chars().all(|letter| letter.is_alphanumeric() || letter == '-'))
    };
    let host = match scheme {
        "http" | "https" => rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#', ':']).next()),
        "mailto" => rest.split_once('@').map(|(_, host)| host),
        _ => return Err("it is neither a web nor a mail address".to_owned()),
    };
    if host.is_some_and(is_host) { Ok(()) } else { Err("it names no host".to_owned()) }
}

/// The path that a relative one names, from a directory of the repository; `None` outside of it.
pub(crate) fn joined(dir: &str, relative: &str) -> Option<String> {
    if relative.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in dir.split('/').chain(relative.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

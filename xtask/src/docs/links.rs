//! Resolves links in Markdown files and finds dead links, without network access.

use super::markdown::Document;
use super::sources::Tree;

/// The target of a link.
pub(crate) enum Target<'a> {
    /// A page of the site, with an optional anchor.
    Page(&'a Document, &'a str),
    /// Another file or directory of the repository, as a path.
    File(String),
    /// Another site.
    External,
}

/// Returns all problems with the links of the documents, one per line.
pub(crate) fn problems(tree: &Tree, documents: &[Document]) -> Vec<String> {
    let mut problems = Vec::new();
    for document in documents {
        for link in &document.links {
            if let Err(reason) = target(tree, documents, document, link) {
                problems.push(format!("{}: the link to {link}: {reason}", document.source));
            }
        }
        for name in &document.undefined {
            problems.push(format!("{}: the link [{name}] is not defined", document.source));
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
        return check_external(scheme, rest).map(|()| Target::External);
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let page = if path.is_empty() {
        Some(from)
    } else {
        let path = join_path(from.dir(), path).ok_or("it leads out of the repository")?;
        let readme = format!("{path}/README.md").trim_start_matches('/').to_owned();
        let page = documents.iter().find(|page| page.source == path || page.source == readme);
        if page.is_none() {
            if !tree.has(&path) {
                return Err("the file does not exist".to_owned());
            }
            return if anchor.is_empty() { Ok(Target::File(path)) } else { Err("only pages have anchors".to_owned()) };
        }
        page
    };
    let page = page.ok_or("the page does not exist")?;
    if link.ends_with('#') || !anchor.is_empty() && !page.has_anchor(anchor) {
        return Err(format!("{} has no heading for that anchor", page.source));
    }
    Ok(Target::Page(page, anchor))
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+'
}

/// Checks whether the address is well-formed, without contacting the server.
fn check_external(scheme: &str, rest: &str) -> Result<(), String> {
    if rest.chars().any(|letter| letter.is_whitespace() || letter.is_control() || "<>\"".contains(letter)) {
        return Err("it contains a character that is invalid in an address".to_owned());
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

/// Resolves a relative path from a directory of the repository. Returns `None` outside of it.
pub(crate) fn join_path(dir: &str, relative: &str) -> Option<String> {
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

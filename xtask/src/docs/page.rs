//! Generates the HTML of a page. Pages work without a script and at any URL, because all links are relative.

use std::collections::BTreeMap;
use std::fmt::Write;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Tag, TagEnd, html::push_html};

use super::contents::Group;
use super::links::{Target, target};
use super::markdown::{Document, codes};
use super::sources::Tree;
use crate::error::Result;

/// The repository's address for links to files that are not pages: `repository` in Cargo.toml, if it is set.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Tables with at least this many columns often need a scroll bar, which must be usable by keyboard.
const WIDE_TABLE: usize = 4;
/// Lines of code with more characters are too wide for a phone.
const WIDE_CODE: usize = 40;
/// Names of up to this many characters are not broken at hyphens.
const SHORT_CODE: usize = 20;
/// Pages with this many headings get a list of them. Longer pages contain a table of their own.
const LISTED_HEADINGS: std::ops::RangeInclusive<usize> = 3..=25;

/// Maps codes of findings to the sections that explain and show them.
pub(crate) struct Examples<'a> {
    /// The addresses of the sections with a code as the heading.
    explained: BTreeMap<&'a str, String>,
    /// The sections that show the doctor's output with the code: their addresses and titles.
    shown: BTreeMap<&'a str, Vec<(String, String)>>,
}

impl<'a> Examples<'a> {
    /// The maximum number of sections listed per code.
    const MAX: usize = 5;

    pub(crate) fn new(documents: &'a [Document]) -> Self {
        let mut examples = Examples { explained: BTreeMap::new(), shown: BTreeMap::new() };
        let sections = |document: &'a Document| document.sections.iter().map(move |section| (document, section));
        for (document, section) in documents.iter().flat_map(sections) {
            let address = format!("{}#{}", document.address, section.id);
            for code in &section.shown_codes {
                let shown = examples.shown.entry(code).or_default();
                if shown.len() < Self::MAX && shown.iter().all(|(other, _)| *other != address) {
                    let section = if section.level == 1 { "" } else { section.title.as_str() };
                    let colon = if section.is_empty() { "" } else { ": " };
                    shown.push((address.clone(), format!("{}{colon}{section}", document.title())));
                }
            }
            if section.title.len() == 4 && codes(&format!("note[{}]", section.title)).next().is_some() {
                examples.explained.insert(&section.title, address);
            }
        }
        examples
    }
}

/// The page of a document.
pub(crate) fn html(
    tree: &Tree,
    documents: &[Document],
    contents: &[Group<'_>],
    examples: &Examples<'_>,
    document: &Document,
) -> Result<String> {
    let up = up(&document.address);
    let mut writer = Writer { document, documents, tree, examples, up: &up, out: Vec::new(), links: Vec::new() };
    writer.write()?;
    let mut main = String::new();
    push_html(&mut main, writer.out.into_iter());
    let source = &document.source;
    let source = in_repository(source).map_or_else(
        || format!("<code>{}</code>", escaped(source)),
        |address| format!("<a href=\"{}\"><code>{}</code></a>", escaped(&address), escaped(source)),
    );
    let _ = writeln!(main, "{}<footer>Made of {source}.</footer>", next(contents, document, &up));
    Ok(layout(document.title(), &up, contents, Some(document), &main))
}

/// The page with the results of a search.
pub(crate) fn search(contents: &[Group<'_>]) -> String {
    let main = "<h1>Search</h1>\n\
        <noscript><p>The search needs JavaScript. All pages are in the table of contents.</p></noscript>\n\
        <p id=\"page-status\" role=\"status\">Type words, a code (C014), a function or an error message above.</p>\n\
        <ol id=\"page-results\"></ol>\n\
        <script src=\"search-index.js\"></script>\n<script src=\"search.js\"></script>\n";
    layout("Search", "", contents, None, main)
}

fn layout(title: &str, up: &str, contents: &[Group<'_>], current: Option<&Document>, main: &str) -> String {
    let title = if current.is_some_and(|page| page.address == "index.html") {
        escaped(title)
    } else {
        format!("{} – cudnn-shim", escaped(title))
    };
    let mut groups = String::new();
    for Group { title, pages } in contents {
        let has = |page: &Document| pages.iter().any(|other| other.source == page.source);
        let open = if *title == "Start" || *title == "Guide" || current.is_some_and(has) { " open" } else { "" };
        let _ = write!(groups, "<details{open}><summary>{title}</summary>\n<ul>\n");
        for page in pages {
            let here = current.is_some_and(|current| current.source == page.source);
            let here = if here { " aria-current=\"page\"" } else { "" };
            let label = if page.title() == *title { "Overview" } else { page.title() };
            let _ = writeln!(groups, "<li><a href=\"{up}{}\"{here}>{}</a></li>", page.address, escaped(label));
        }
        groups.push_str("</ul>\n</details>\n");
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#page-main\">Skip to the text</a>\n\
         <header>\n<a class=\"home\" href=\"{up}index.html\">cudnn-shim</a>\n\
         <form role=\"search\" action=\"{up}search.html\" method=\"get\">\n\
         <input type=\"search\" name=\"q\" aria-label=\"Search the documentation\" \
         placeholder=\"Error message, code, function\" autocomplete=\"off\" spellcheck=\"false\">\n\
         <button>Search</button>\n</form>\n\
         <button type=\"button\" class=\"narrow\" popovertarget=\"page-contents\">Contents</button>\n</header>\n\
         <div class=\"columns\">\n<nav id=\"page-contents\" aria-label=\"Contents\" popover>\n\
         <button type=\"button\" class=\"narrow\" popovertarget=\"page-contents\" popovertargetaction=\"hide\">Close\
         </button>\n{groups}</nav>\n<main id=\"page-main\" tabindex=\"-1\">\n{main}</main>\n</div>\n</body>\n</html>\n"
    )
}

/// Returns links to the previous and next page in the same group.
fn next(contents: &[Group<'_>], document: &Document, up: &str) -> String {
    let place = |group: &Group<'_>| group.pages.iter().position(|page| page.source == document.source);
    let Some((group, place)) = contents.iter().find_map(|group| Some((group, place(group)?))) else {
        return String::new();
    };
    let link = |place: Option<usize>, rel: &str, label: &str| {
        let page = place.and_then(|place| group.pages.get(place));
        page.map_or_else(String::new, |page| {
            format!("<a rel=\"{rel}\" href=\"{up}{}\">{label}: {}</a>\n", page.address, escaped(page.title()))
        })
    };
    let links = link(place.checked_sub(1), "prev", "Previous") + &link(place.checked_add(1), "next", "Next");
    if links.is_empty() { links } else { format!("<nav class=\"next\" aria-label=\"Neighbours\">\n{links}</nav>\n") }
}

/// Converts a document's events to the events of its page.
struct Writer<'a> {
    document: &'a Document,
    documents: &'a [Document],
    tree: &'a Tree,
    examples: &'a Examples<'a>,
    up: &'a str,
    out: Vec<Event<'static>>,
    /// The closing tags of the open links.
    links: Vec<&'static str>,
}

impl Writer<'_> {
    fn write(&mut self) -> Result<()> {
        let document = self.document;
        let mut sections = document.sections.iter();
        let mut section = None;
        let mut code: Option<String> = None;
        let mut in_table = false;
        for event in &document.events {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    self.examples_of(section.map_or("", |section: &super::markdown::Section| &section.title));
                    section = sections.next();
                    let id = section.map_or("", |section| &section.id);
                    self.html(format!("<{level} id=\"{}\">", escaped(id)));
                }
                Event::End(TagEnd::Heading(level)) => {
                    let id = section.map_or("", |section| &section.id);
                    let label = "aria-label=\"Link to this section\"";
                    self.html(format!(" <a class=\"anchor\" href=\"#{}\" {label}>#</a></{level}>\n", escaped(id)));
                    if *level as usize == 1 {
                        self.headings();
                    }
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let language = match kind {
                        CodeBlockKind::Fenced(info) => info.split([',', ' ']).next().unwrap_or_default(),
                        CodeBlockKind::Indented => "",
                    };
                    self.html(format!("<pre{{}}><code class=\"language-{}\">", escaped(language)));
                    code = Some(String::new());
                }
                Event::End(TagEnd::CodeBlock) => {
                    let code = code.take().unwrap_or_default();
                    let is_wide = code.lines().any(|line| line.chars().count() > WIDE_CODE);
                    if let Some(Event::InlineHtml(start)) = self.out.last_mut() {
                        *start = start.replace("{}", if is_wide { " tabindex=\"0\"" } else { "" }).into();
                    }
                    self.html(format!("{}</code></pre>\n", self.with_codes(&code)));
                }
                Event::Text(text) if code.is_some() => code.iter_mut().for_each(|code| code.push_str(text)),
                Event::Text(text) => self.html(escaped(text)),
                Event::Code(text) => {
                    let is_short = text.len() <= SHORT_CODE && !text.contains(' ');
                    let class = if is_short { " class=\"short\"" } else { "" };
                    let text = if in_table { breakable(&escaped(text)) } else { escaped(text) };
                    self.html(format!("<code{class}>{text}</code>"));
                }
                Event::Start(Tag::Table(columns)) => {
                    let is_wide = columns.len() >= WIDE_TABLE;
                    let start =
                        if is_wide { "<div class=\"table wide\" tabindex=\"0\">" } else { "<div class=\"table\">" };
                    self.html(start.to_owned());
                    in_table = true;
                    self.out.push(event.clone());
                }
                Event::End(TagEnd::Table) => {
                    self.out.push(event.clone());
                    self.html("</div>\n".to_owned());
                    in_table = false;
                }
                // The site has no images, only their descriptions.
                Event::Start(Tag::Image { .. }) => self.html("<em>".to_owned()),
                Event::End(TagEnd::Image) => self.html("</em>".to_owned()),
                Event::Start(Tag::Link { dest_url, .. }) => self.link(dest_url)?,
                Event::End(TagEnd::Link) => {
                    let end = self.links.pop().unwrap_or_default();
                    self.html(end.to_owned());
                }
                event => self.out.push(event.clone()),
            }
        }
        self.examples_of(section.map_or("", |section| &section.title));
        Ok(())
    }

    fn html(&mut self, html: String) {
        self.out.push(Event::InlineHtml(CowStr::from(html)));
    }

    fn link(&mut self, link: &str) -> Result<()> {
        let (start, end) = match target(self.tree, self.documents, self.document, link)? {
            Target::Page(page, anchor) => {
                let page = if page.source == self.document.source { "" } else { &page.address };
                let up = if page.is_empty() { "" } else { self.up };
                let hash = if anchor.is_empty() { "" } else { "#" };
                // An empty address would reload the page.
                let address = format!("{up}{page}{hash}{anchor}");
                let address = if address.is_empty() { "#page-main".to_owned() } else { address };
                (format!("<a href=\"{}\">", escaped(&address)), "</a>")
            }
            Target::External => (format!("<a href=\"{}\">", escaped(link)), "</a>"),
            Target::File(path) => match in_repository(&path) {
                Some(address) => (format!("<a href=\"{}\">", escaped(&address)), "</a>"),
                None => (format!("<span class=\"file\" title=\"in the repository: {}\">", escaped(&path)), "</span>"),
            },
        };
        self.html(start);
        self.links.push(end);
        Ok(())
    }

    /// The list of the headings below the title.
    fn headings(&mut self) {
        let sections: Vec<_> = self.document.sections.iter().filter(|section| section.level == 2).collect();
        if !LISTED_HEADINGS.contains(&sections.len()) {
            return;
        }
        let mut list = String::from("<details class=\"headings\"><summary>On this page</summary>\n<ul>\n");
        for section in sections {
            let _ = writeln!(list, "<li><a href=\"#{}\">{}</a></li>", escaped(&section.id), escaped(&section.title));
        }
        self.html(list + "</ul>\n</details>\n");
    }

    /// Links to the sections that show a code, if the title is one.
    fn examples_of(&mut self, title: &str) {
        let is_here = |address: &String| address.starts_with(&format!("{}#", self.document.address));
        if !self.examples.explained.get(title).is_some_and(is_here) {
            return;
        }
        let shown = self.examples.shown.get(title).map_or(&[][..], Vec::as_slice);
        let link = |(address, title): &(String, String)| {
            format!("<li><a href=\"{}{}\">{}</a></li>\n", self.up, escaped(address), escaped(title))
        };
        let links: String = shown.iter().map(link).collect();
        if !links.is_empty() {
            self.html(format!("<p>Examples:</p>\n<ul>\n{links}</ul>\n"));
        }
    }

    /// Returns code with links for all codes of findings.
    fn with_codes(&self, text: &str) -> String {
        let mut html = String::new();
        let mut done = 0;
        for (start, code) in codes(text) {
            let Some(address) = self.examples.explained.get(code) else { continue };
            html.push_str(&escaped(text.get(done..start).unwrap_or_default()));
            let _ = write!(html, "<a href=\"{}{}\">{code}</a>", self.up, escaped(address));
            done = start + code.len();
        }
        html + &escaped(text.get(done..).unwrap_or_default())
    }
}

/// Returns the relative path from a page to the root of the site.
fn up(address: &str) -> String {
    "../".repeat(address.matches('/').count())
}

fn in_repository(path: &str) -> Option<String> {
    (!REPOSITORY.is_empty()).then(|| format!("{}/blob/HEAD/{path}", REPOSITORY.trim_end_matches('/')))
}

/// Allows line breaks between the parts of names that are too long for a column. Expects escaped text.
fn breakable(html: &str) -> String {
    ["_", "/", "."].iter().fold(html.to_owned(), |html, mark| html.replace(mark, &format!("{mark}<wbr>")))
}

/// Escapes text for HTML, including attributes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

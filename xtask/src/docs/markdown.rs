//! Parses a Markdown file into headings with anchors, links, and section texts. Independent of other files.

use std::collections::BTreeMap;

use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

/// A parsed file.
pub(crate) struct Document {
    /// The path in the repository.
    pub(crate) source: String,
    /// The path on the site.
    pub(crate) address: String,
    pub(crate) events: Vec<Event<'static>>,
    /// The sections in order. The first one belongs to the title.
    pub(crate) sections: Vec<Section>,
    /// The targets of links and images.
    pub(crate) links: Vec<String>,
    /// References like `[text][name]` without a definition, which remain plain text.
    pub(crate) undefined: Vec<String>,
}

/// A heading, and the text up to the next.
pub(crate) struct Section {
    pub(crate) level: usize,
    pub(crate) title: String,
    pub(crate) id: String,
    pub(crate) text: String,
    /// The codes of findings in the code blocks of the section.
    pub(crate) shown_codes: Vec<String>,
}

impl Document {
    pub(crate) fn new(source: String, address: String, text: &str) -> Self {
        let mut undefined = Vec::new();
        let note = |link: BrokenLink<'_>| {
            if link.link_type == LinkType::ReferenceUnknown || link.link_type == LinkType::Reference {
                undefined.push(link.reference.to_string());
            }
            None::<(CowStr<'_>, CowStr<'_>)>
        };
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let events: Vec<Event<'static>> =
            Parser::new_with_broken_link_callback(text, options, Some(note)).map(Event::into_static).collect();
        let sections = sections(&events);
        let links = events.iter().filter_map(target).collect();
        Document { source, address, events, sections, links, undefined }
    }

    pub(crate) fn title(&self) -> &str {
        self.sections.iter().find(|section| section.level == 1).map_or(&self.source, |section| &section.title)
    }

    pub(crate) fn has_anchor(&self, anchor: &str) -> bool {
        self.sections.iter().any(|section| section.id == anchor)
    }

    /// Returns the directory of the file, with a trailing slash, or an empty string.
    pub(crate) fn dir(&self) -> &str {
        self.source.rfind('/').and_then(|end| self.source.get(..=end)).unwrap_or_default()
    }
}

fn target(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Start(Tag::Link { link_type: LinkType::Email, dest_url, .. }) => Some(format!("mailto:{dest_url}")),
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    }
}

fn sections(events: &[Event<'_>]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut used = BTreeMap::new();
    let (mut in_heading, mut in_code) = (false, false);
    for event in events {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let (title, id, text) = (String::new(), String::new(), String::new());
                sections.push(Section { level: *level as usize, title, id, text, shown_codes: Vec::new() });
                in_heading = true;
                continue;
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            _ => {}
        }
        let Some(section) = sections.last_mut() else { continue };
        match event {
            Event::End(TagEnd::Heading(_)) => {
                section.id = unused(slug(&section.title), &mut used);
                in_heading = false;
            }
            Event::Text(text) | Event::Code(text) if in_heading => section.title.push_str(text),
            Event::Text(text) | Event::Code(text) => {
                if in_code {
                    section.shown_codes.extend(codes(text).map(|(_, code)| code.to_owned()));
                }
                section.text.push_str(text);
            }
            // Inline code and bold text do not separate words.
            Event::SoftBreak | Event::HardBreak | Event::End(TagEnd::TableCell | TagEnd::Item | TagEnd::CodeBlock) => {
                section.text.push(' ');
            }
            Event::End(TagEnd::Paragraph | TagEnd::TableRow | TagEnd::TableHead) => section.text.push(' '),
            _ => {}
        }
    }
    sections
}

/// Returns the anchor that code hosts generate for a heading.
fn slug(title: &str) -> String {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter),
        _ => None,
    };
    title.trim().to_lowercase().chars().filter_map(kept).collect()
}

/// Adds a number to the anchor of a repeated heading, as code hosts do.
fn unused(slug: String, used: &mut BTreeMap<String, usize>) -> String {
    let count = used.entry(slug.clone()).or_default();
    *count += 1;
    if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
}

/// Finds the codes of findings in the doctor's output, such as `error[C014]`, with their positions.
pub(crate) fn codes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('[').filter_map(|(start, _)| {
        let (before, after) = text.split_at_checked(start + 1)?;
        let code = after.get(..4)?;
        let digits = code.strip_prefix('C')?;
        let is_label = ["error[", "warning[", "note["].iter().any(|label| before.ends_with(label));
        (is_label && digits.bytes().all(|byte| byte.is_ascii_digit()) && after.get(4..5) == Some("]"))
            .then_some((start + 1, code))
    })
}

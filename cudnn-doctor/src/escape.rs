//! Makes text from outside (file names, package names, process names, variables, library messages) safe for a terminal:
//! characters that could move the cursor, recolour, reorder or forge a line become escapes. Only this module does that.

use std::borrow::Cow;
use std::path::Path;

/// Can this character do more on a terminal than show itself? Controls (C0, DEL, C1), line separators, and the marks
/// that change the direction of writing.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text that is safe within one line of output.
pub(crate) trait Printable {
    /// The text itself, with an escape in place of each unsafe character and line break.
    fn printable(&self) -> String;
}

impl Printable for str {
    fn printable(&self) -> String {
        replace(self, is_unsafe, |c| c.escape_default().to_string()).into_owned()
    }
}

impl Printable for Path {
    fn printable(&self) -> String {
        self.to_string_lossy().printable()
    }
}

/// The last barrier before the terminal: keeps the line breaks of a text of several lines, and escapes the rest.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    replace(text, |c| c != '\n' && is_unsafe(c), |c| c.escape_default().to_string())
}

/// A JSON document that is safe to print. It can contain such characters only in strings, and JSON has an escape for
/// them.
pub(crate) fn json(document: &str) -> Cow<'_, str> {
    replace(document, |c| c != '\n' && is_unsafe(c), |c| format!("\\u{:04x}", u32::from(c)))
}

fn replace(text: &str, is_unsafe: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.chars().any(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            escaped.push_str(&escape(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_line_breaks_and_direction_marks_are_escaped() {
        let hostile = "a\x1b[31m\n\u{85}\u{9b}31m\u{202e}b\u{2066}\u{7f}";
        let shown = hostile.printable();
        assert_eq!(shown, r"a\u{1b}[31m\n\u{85}\u{9b}31m\u{202e}b\u{2066}\u{7f}");
        assert_eq!("/opt/größe/it's".printable(), "/opt/größe/it's");
    }

    #[test]
    fn a_document_keeps_its_meaning() {
        let value = serde_json::json!({ "file": "a\u{9b}\u{202e}b" });
        let text = format!("{value:#}");
        let safe = json(&text);
        assert!(safe.chars().all(|c| c == '\n' || !is_unsafe(c)), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).ok(), Some(value));
    }
}

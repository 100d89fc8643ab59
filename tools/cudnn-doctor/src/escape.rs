//! Makes text from outside (file names, package names, process names, variables, library messages) safe for a terminal:
//! characters that could move the cursor, recolour, reorder or forge a line become escapes. Only this module does that.

use std::borrow::Cow;
use std::path::Path;

use cudnn_os::escape::{is_unsafe, one_line};

/// Text that is safe within one line of output.
pub(crate) trait Printable {
    /// The text itself, with an escape in place of each unsafe character and line break.
    fn printable(&self) -> String;
}

impl Printable for str {
    fn printable(&self) -> String {
        one_line(self)
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
    // JSON writes a character beyond 16 bits as two.
    let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    replace(document, |c| c != '\n' && is_unsafe(c), escape)
}

fn replace(text: &str, is_unsafe: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.chars().any(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if is_unsafe(c) { escape(c) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_line_breaks_and_direction_marks_are_escaped() {
        let hostile = "a\x1b[31m\n\u{85}\u{9b}31m\u{202e}b\u{2066}\u{7f}";
        let shown = hostile.printable();
        assert_eq!(shown, r"a\u{1b}[31m\n\u{85}\u{9b}31m\u{202e}b\u{2066}\u{7f}");
        assert_eq!("/opt/größe/it's/हिन्दी/e\u{301}".printable(), "/opt/größe/it's/हिन्दी/e\u{301}");
    }

    #[test]
    fn characters_that_do_not_show_themselves_are_escaped() {
        for c in "\u{200b}\u{feff}\u{2060}\u{ad}\u{2028}\u{2029}\u{fe0f}\u{180e}\u{e0001}\u{e0101}\u{110bd}".chars() {
            assert_eq!(c.to_string().printable(), c.escape_unicode().to_string());
            let document = json(&format!("{:#}", serde_json::json!([c]))).into_owned();
            assert!(!document.contains(c), "{c:?}");
            assert_eq!(serde_json::from_str::<Vec<char>>(&document).unwrap_or_default(), [c], "{document}");
        }
    }
}

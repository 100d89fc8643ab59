//! Escapes untrusted text for terminals, because names and messages may contain characters that move the cursor, change
//! colors or forge lines. All escaping is done here.

use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;

use cudnn_os::escape::{is_unsafe, one_line};

/// Text that can be printed on one line.
pub trait Printable {
    /// Returns the text with unsafe characters and line breaks escaped.
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

/// Escapes the lines of a text. This is the last safeguard before the terminal.
pub fn lines(text: &str) -> String {
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

/// Escapes a JSON document for a terminal while it is written. Unsafe characters are only in strings, which allow escapes.
pub struct Json<W>(pub W);

impl<W: Write> Write for Json<W> {
    /// Serializers write whole parts of strings.
    fn write(&mut self, part: &[u8]) -> Result<usize> {
        let text = std::str::from_utf8(part).map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        // JSON uses surrogate pairs.
        let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let shown = |c: char| if c != '\n' && is_unsafe(c) { escape(c) } else { c.to_string() };
        match text.contains(is_unsafe) {
            true => self.0.write_all(text.chars().map(shown).collect::<String>().as_bytes())?,
            false => self.0.write_all(part)?,
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

/// Removes control sequences, such as colors.
pub fn text_without_colors(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Like [`text_without_colors`], for text that may not be UTF-8.
pub fn without_colors(text: Vec<u8>) -> Vec<u8> {
    if text.contains(&0x1b) { anstream::adapter::strip_bytes(&text).into_vec() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_do_not_show_themselves_are_escaped() {
        for c in "\u{200b}\u{feff}\u{2060}\u{ad}\u{2028}\u{2029}\u{fe0f}\u{180e}\u{e0001}\u{e0101}\u{110bd}".chars() {
            assert_eq!(c.to_string().printable(), c.escape_unicode().to_string());
            let mut document = Json(Vec::new());
            let _ = serde_json::to_writer_pretty(&mut document, &[c]);
            let document = String::from_utf8(document.0).unwrap_or_default();
            assert!(!document.contains(c), "{c:?}");
            assert_eq!(serde_json::from_str::<Vec<char>>(&document).unwrap_or_default(), [c], "{document}");
        }
    }
}

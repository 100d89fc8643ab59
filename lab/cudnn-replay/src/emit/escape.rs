//! Quotes texts and bytes from a capture.

use std::fmt::Write;

/// Returns the text in double quotes, as one line of printable ASCII. It cannot end or continue a line comment.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}

/// Returns bytes in double quotes. `escape` formats bytes other than plain ASCII characters.
pub(super) fn byte_string(bytes: &[u8], escape: fn(u8) -> String) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => {
                let _ = write!(text, "\\{}", char::from(*byte));
            }
            b' '..=b'~' if *byte != b'?' => text.push(char::from(*byte)),
            _ => text.push_str(&escape(*byte)),
        }
    }
    text.push('"');
    text
}

/// Returns an octal escape of three digits. Unlike a hexadecimal escape, it does not include a digit that follows.
pub(super) fn octal(byte: u8) -> String {
    format!("\\{byte:03o}")
}

pub(super) fn hexadecimal(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_on_their_line() {
        assert_eq!(quoted("a\nb\r\u{2028}\u{202e}\"?\\"), r#""a\nb\r\u{2028}\u{202e}\"?\\""#);
        assert_eq!(byte_string(b"a\"\\\n?\xff0", octal), r#""a\"\\\012\077\3770""#);
        assert_eq!(byte_string(b"a\"\\\n\xff0", hexadecimal), r#""a\"\\\x0a\xff0""#);
    }
}

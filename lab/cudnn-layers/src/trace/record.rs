//! Builds a JSON record in a fixed-size buffer on the stack, so that signal handlers can also create records.

use std::fmt::{self, Write};

use arrayvec::ArrayVec;

/// Maximum size of a record. A call with arguments takes 100 to 500 bytes.
const SIZE: usize = 4096;
/// The bytes that are reserved for the end of a record.
const END: usize = 32;

/// A JSON record. Members that exceed the size are omitted, and the record stays valid.
pub(crate) struct JsonRecord {
    bytes: ArrayVec<u8, SIZE>,
    /// A member was omitted.
    is_cut: bool,
}

impl JsonRecord {
    pub(crate) fn new() -> Self {
        JsonRecord { bytes: ArrayVec::new(), is_cut: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds JSON.
    #[inline]
    pub(crate) fn raw(&mut self, json: &str) {
        self.push(json.as_bytes(), END);
    }

    /// Adds the end of the record.
    #[inline]
    pub(crate) fn end(&mut self, json: &str) {
        self.push(json.as_bytes(), 0);
    }

    /// Adds a string.
    pub(crate) fn string(&mut self, text: &str, limit: usize) {
        self.quoted(limit, |string| string.write_str(text));
    }

    /// Adds a string with the text that `write` produces, truncated to `limit` bytes.
    pub(crate) fn quoted(&mut self, limit: usize, write: impl FnOnce(&mut Escaped<'_>) -> fmt::Result) {
        self.raw("\"");
        // A failing `Debug` implementation has already printed the available text.
        let _ = write(&mut Escaped { record: self, left: limit });
        self.raw("\"");
    }

    /// Adds a number.
    #[inline]
    pub(crate) fn number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut start = digits.len();
        let mut rest = number;
        for (index, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            start = index;
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(start..).unwrap_or_default(), END);
    }

    /// Adds an address as a hexadecimal string.
    #[inline]
    pub(crate) fn address(&mut self, address: usize) {
        // One digit per four bits, without leading zeros.
        let digits = (usize::BITS - address.leading_zeros()).div_ceil(4).max(1);
        self.raw("\"0x");
        for digit in (0..digits).rev() {
            let digit = (address >> (4 * digit)) as u8 & 0xf;
            self.push(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }], END);
        }
        self.raw("\"");
    }

    /// Adds nanoseconds, converted to microseconds.
    #[inline]
    pub(crate) fn microseconds(&mut self, nanoseconds: u64) {
        self.number(nanoseconds / 1000);
        let digits = [100, 10, 1].map(|unit| b'0' + (nanoseconds / unit % 10) as u8);
        self.push(b".", END);
        self.push(&digits, END);
    }

    /// Adds the object `args` with the members that the closure adds.
    #[inline]
    pub(crate) fn arguments(&mut self, add: impl FnOnce(&mut Members<'_>)) {
        add(&mut Members { record: self, is_empty: true });
    }

    #[inline]
    fn push(&mut self, bytes: &[u8], kept: usize) {
        if bytes.len() + kept > self.bytes.remaining_capacity() || self.bytes.try_extend_from_slice(bytes).is_err() {
            self.is_cut = true;
        }
    }
}

/// Adds formatted text.
impl Write for JsonRecord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.raw(text);
        Ok(())
    }
}

/// The object `args` of a record. An empty object is omitted.
pub(crate) struct Members<'a> {
    record: &'a mut JsonRecord,
    is_empty: bool,
}

impl Members<'_> {
    /// Adds a member, or omits it if there is no room. The key must not need escaping.
    #[inline]
    pub(crate) fn add(&mut self, key: &str, value: impl FnOnce(&mut JsonRecord)) {
        let (start, was_cut) = (self.record.bytes.len(), self.record.is_cut);
        self.record.is_cut = false;
        self.record.raw(if self.is_empty { ",\"args\":{\"" } else { ",\"" });
        self.record.raw(key);
        self.record.raw("\":");
        value(self.record);
        if self.record.is_cut {
            self.record.bytes.truncate(start);
            return;
        }
        self.record.is_cut = was_cut;
        self.is_empty = false;
    }
}

impl Drop for Members<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_empty {
            self.record.end("}");
        }
    }
}

/// Writes into a JSON string.
pub(crate) struct Escaped<'a> {
    record: &'a mut JsonRecord,
    left: usize,
}

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Most texts need no escaping. The compiler vectorizes this loop because it has no early exit.
        let is_plain = |byte| matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\');
        let is_clean = text.bytes().fold(true, |is_clean, byte| is_clean & is_plain(byte));
        if is_clean && text.len() <= self.left {
            self.left -= text.len();
            self.record.raw(text);
            return Ok(());
        }
        for letter in text.chars() {
            let start = self.record.bytes.len();
            match letter {
                '"' => self.record.raw("\\\""),
                '\\' => self.record.raw("\\\\"),
                '\n' => self.record.raw("\\n"),
                control if control.is_control() => write!(self.record, "\\u{:04x}", u32::from(control))?,
                other => self.record.raw(other.encode_utf8(&mut [0; 4])),
            }
            let Some(left) = self.left.checked_sub(self.record.bytes.len() - start) else {
                self.record.bytes.truncate(start);
                self.left = 0;
                return Ok(());
            };
            self.left = left;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(write: impl FnOnce(&mut JsonRecord)) -> Value {
        let mut record = JsonRecord::new();
        record.raw("{\"value\":");
        write(&mut record);
        record.end("}");
        let text = String::from_utf8(record.bytes().to_vec()).unwrap();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn texts_are_what_was_put_in() {
        let text = "a \"name\" \\ of\u{1}\u{7f}\u{85}\n, caf\u{e9} \u{1f600}";
        assert_eq!(parsed(|record| record.string(text, 100))["value"], text);
        assert_eq!(parsed(|record| record.quoted(7, |to| write!(to, "{text:?}")))["value"], "\"a \\");
        let cut = parsed(|record| record.string(&"\u{e9}".repeat(1000), 101));
        assert_eq!(cut["value"], "\u{e9}".repeat(50));
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let powers = (0..20).map(|exponent| 10_u64.pow(exponent));
        for number in powers.flat_map(|power| [power - 1, power, power / 7 * 9]).chain([u64::MAX]) {
            let mut record = JsonRecord::new();
            record.number(number);
            record.raw(" ");
            record.microseconds(number);
            let expected = format!("{number} {}.{:03}", number / 1000, number % 1000);
            assert_eq!(std::str::from_utf8(record.bytes()), Ok(expected.as_str()));
        }
    }

    #[test]
    fn addresses_are_written_in_hexadecimal() {
        for address in [0, 1, 0xf, 0x10, 0x5651_591f_ba90, usize::MAX] {
            assert_eq!(parsed(|record| record.address(address))["value"], format!("{address:#x}"));
        }
    }

    #[test]
    fn members_without_room_are_left_out() {
        let value = parsed(|record| {
            record.raw("0");
            record.arguments(|_| {});
            record.arguments(|members| {
                members.add("first", |record| record.number(1));
                members.add("long", |record| record.string(&"x".repeat(SIZE), SIZE));
                members.add("\u{e9}", |record| record.string(&"x".repeat(SIZE / 2), SIZE));
                members.add("half", |record| record.string(&"\u{1}".repeat(SIZE / 2), SIZE));
                members.add("last", |record| record.number(2));
            });
        });
        let expected = json!({"first": 1, "\u{e9}": "x".repeat(SIZE / 2), "last": 2});
        assert_eq!(value["args"], expected);
    }
}

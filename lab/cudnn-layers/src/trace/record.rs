//! Builds a JSON record in a fixed-size buffer on the stack, so that signal handlers can also create records.

use std::io::{Error, ErrorKind, Result, Write};

use arrayvec::ArrayVec;

/// Maximum size of a record. A call with arguments takes 100 to 500 bytes.
const SIZE: usize = 4096;
/// The number of bytes reserved for the end of a record.
const END: usize = 32;

/// A JSON record. Writing beyond the size is an error and has no effect.
pub(super) struct JsonRecord(ArrayVec<u8, SIZE>);

impl Write for JsonRecord {
    #[inline]
    fn write(&mut self, json: &[u8]) -> Result<usize> {
        let has_room = json.len() + END <= self.0.remaining_capacity();
        let added = has_room && self.0.try_extend_from_slice(json).is_ok();
        if added { Ok(json.len()) } else { Err(Error::from(ErrorKind::WriteZero)) }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl JsonRecord {
    pub(super) fn new() -> Self {
        JsonRecord(ArrayVec::new())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds a string, truncated to `limit` bytes.
    pub(super) fn string(&mut self, text: &str, limit: usize) -> Result<()> {
        let end = (0..=limit.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        Ok(serde_json::to_writer(self, text.get(..end).unwrap_or_default())?)
    }

    /// Adds the object `args` with the members that the closure adds, unless it is empty.
    #[inline]
    pub(super) fn arguments(&mut self, add: impl FnOnce(&mut Members<'_>)) {
        let mut members = Members { record: self, start: ",\"args\":{\"" };
        add(&mut members);
        if members.start == NEXT {
            self.end("}");
        }
    }

    #[inline]
    pub(super) fn end(&mut self, json: &str) {
        // There is always enough room.
        let _ = self.0.try_extend_from_slice(json.as_bytes());
    }
}

pub(super) struct Members<'a> {
    record: &'a mut JsonRecord,
    /// The text before the key of the next member.
    start: &'static str,
}

const NEXT: &str = ",\"";

impl Members<'_> {
    /// Adds a member, or omits it if there is no room. The key must not need escaping.
    #[inline]
    pub(super) fn add(&mut self, key: &str, value: impl FnOnce(&mut JsonRecord) -> Result<()>) {
        let before = self.record.0.len();
        let key = [self.start, key, "\":"].into_iter().try_for_each(|part| self.record.write_all(part.as_bytes()));
        match key.and_then(|()| value(self.record)) {
            Ok(()) => self.start = NEXT,
            Err(_) => self.record.0.truncate(before),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(record: &JsonRecord) -> Value {
        let text = std::str::from_utf8(record.bytes()).unwrap();
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn texts_are_escaped_and_truncated() {
        let text = "a \"name\" \\ of\u{1}\u{7f}\u{85}\n, caf\u{e9} \u{1f600}";
        let accents = "\u{e9}".repeat(1000);
        for (text, limit, expected) in [(text, 100, text), (&accents, 101, &accents[..100])] {
            let mut record = JsonRecord::new();
            record.string(text, limit).unwrap();
            assert_eq!(parsed(&record), expected);
        }
    }

    #[test]
    fn members_without_room_are_left_out() {
        let mut record = JsonRecord::new();
        write!(record, "{{\"value\":0").unwrap();
        record.arguments(|_| {});
        record.arguments(|members| {
            members.add("first", |record| write!(record, "1"));
            members.add("long", |record| record.string(&"x".repeat(SIZE), SIZE));
            members.add("\u{e9}", |record| record.string(&"x".repeat(SIZE / 2), SIZE));
            members.add("half", |record| record.string(&"\u{1}".repeat(SIZE / 2), SIZE));
            members.add("last", |record| write!(record, "2"));
        });
        record.end("}");
        let arguments = json!({"first": 1, "\u{e9}": "x".repeat(SIZE / 2), "last": 2});
        assert_eq!(parsed(&record), json!({"value": 0, "args": arguments}));
    }
}

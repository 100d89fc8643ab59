//! A record of the trace, made of steps. Knows JSON, and not what records are about.

use std::fmt;

use crate::step::{Sink, Step};

/// What is open at the end of a piece.
#[derive(Clone, Copy)]
pub(crate) struct Closing {
    text: &'static str,
    /// The closing and spaces after it.
    word: u128,
}

impl Closing {
    const fn new(text: &'static str) -> Self {
        Closing { text, word: Step::new(text, "").word }
    }

    /// The longest piece that it leaves room for.
    const fn room(self) -> usize {
        Step::SIZE - self.text.len()
    }
}

/// In the record's object, after a member.
pub(crate) const OBJECT: Closing = Closing::new("}");
/// In a string that is a member of the record's object.
pub(crate) const STRING: Closing = Closing::new("\"}");
/// In the object in it, after a member.
pub(crate) const INNER: Closing = Closing::new("}}");
/// In a string that is a member of the object in it.
pub(crate) const INNER_STRING: Closing = Closing::new("\"}}");
/// In a key of the object in it.
const INNER_KEY: Closing = Closing::new("\":0}}");
/// After a key of the object in it.
const INNER_VALUE: Closing = Closing::new("0}}");

/// A record. What does not fit is left out, and the record stays valid.
pub(crate) struct Record<S>(S);

/// Steps to be written later.
impl Record<Vec<Step>> {
    fn new() -> Self {
        Record(Vec::new())
    }

    /// The steps, in order.
    fn steps(self) -> Vec<Step> {
        self.0
    }
}

impl<S: Sink> Record<S> {
    /// The bytes that are kept for the end of a record.
    pub(crate) const END: usize = 32;

    /// A record that is empty, or whose begin this sink has.
    #[inline(always)]
    pub(crate) fn to(sink: S) -> Self {
        Record(sink)
    }

    /// What it was written to.
    #[inline(always)]
    pub(crate) fn into_sink(self) -> S {
        self.0
    }

    /// The bytes that there is room for, beside the end of the record.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.0.left().saturating_sub(Self::END)
    }

    /// Adds a step.
    #[inline(always)]
    pub(crate) fn step(&mut self, step: Step) {
        self.0.put(step);
    }

    /// Adds steps.
    #[inline(always)]
    pub(crate) fn extend(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(*step);
        }
    }

    /// Adds ASCII text that needs no escaping.
    #[inline]
    pub(crate) fn clean(&mut self, text: &[u8], closing: Closing) {
        let mut rest = text;
        while !rest.is_empty() {
            let length = rest.len().min(closing.room());
            self.close(first_bytes(rest, length), length, closing);
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    /// Adds a step of a piece of this length, which leaves room for the closing.
    #[inline(always)]
    fn close(&mut self, piece: u128, length: usize, closing: Closing) {
        self.step(Step { word: piece | closing.word << (8 * length), advance: length as u8 });
    }

    /// Adds any text to a string, at most this much of it.
    pub(crate) fn text(&mut self, text: &str, closing: Closing, limit: usize) {
        let limit = limit.min(self.room());
        let mut string = InString { record: self, closing, piece: 0, length: 0, left: limit };
        string.add(text);
        string.flush();
    }

    /// Adds what a value prints to a string, at most this much of it.
    pub(crate) fn debug(&mut self, value: &dyn fmt::Debug, closing: Closing, limit: usize) {
        let limit = limit.min(self.room());
        let mut string = InString { record: self, closing, piece: 0, length: 0, left: limit };
        // A value whose implementation fails has printed what it could.
        let _ = fmt::write(&mut string, format_args!("{value:?}"));
        string.flush();
    }

    /// Adds `prefix`, of at most 8 bytes, and a number.
    #[inline]
    pub(crate) fn number(&mut self, prefix: &'static str, number: u64, closing: Closing) {
        if number >= LARGE {
            let mut digits = Digits::new();
            digits.put(number);
            digits.put_prefix(prefix);
            return self.clean(digits.get(), closing);
        }
        self.decimal(prefix, decimal(number), (0, 0), closing);
    }

    /// As above, in thousandths: nanoseconds as microseconds.
    #[inline(always)]
    pub(crate) fn thousandths(&mut self, prefix: &'static str, number: u64, closing: Closing) {
        // The last eight digits of a small number: 00000123.
        let part = eight_digits((number % 1000) as u32) >> 40;
        self.decimal(
            prefix,
            decimal((number / 1000).min(LARGE - 1)),
            (u128::from(part << 8 | u64::from(b'.')), 4),
            closing,
        );
    }

    /// Adds a time in nanoseconds as microseconds, after `,"ts":` and the digits of [`upper`] of it.
    #[inline(always)]
    pub(crate) fn lower(&mut self, time: u64) {
        let digits = eight_digits(((time / 1000) % UPPER) as u32);
        self.step(Step { word: u128::from(digits) | fraction(time), advance: 12 });
    }

    /// Adds a duration in nanoseconds as a member in microseconds.
    #[inline(always)]
    pub(crate) fn duration(&mut self, duration: u64) {
        let microseconds = duration / 1000;
        if microseconds >= UPPER {
            return self.thousandths(",\"dur\":", duration, OBJECT);
        }
        self.step(Step::new(",\"dur\":", "0}"));
        let digits = eight_digits(microseconds as u32);
        // The last digit counts, even if it is 0.
        let skipped = ((digits ^ ZEROS) | 1 << 56).trailing_zeros() / 8;
        let word = (u128::from(digits) | fraction(duration)) >> (8 * skipped);
        // What moves in is spaces.
        let spaces = !(u128::MAX >> (8 * skipped)) & SPACES;
        self.step(Step { word: word | spaces, advance: 12 - skipped as u8 });
    }

    /// Adds three texts of 8, 16 and 4 bytes at most, given as words and lengths. The second is a number, and the third
    /// may follow it.
    #[inline(always)]
    fn decimal(&mut self, prefix: &'static str, digits: (u128, usize), part: (u128, usize), closing: Closing) {
        let (start, room) = (prefix.len(), closing.room());
        let word = short_word(prefix.as_bytes());
        let (number, length) = digits;
        if start + length + part.1 <= room {
            let word = word | number << (8 * start) | part.0 << (8 * (start + length));
            return self.close(word, start + length + part.1, closing);
        }
        let first = length.min(room - start);
        self.close(word | (number & mask(first)) << (8 * start), start + first, closing);
        // Shifting by all bits would not be defined.
        let rest = if first < Step::SIZE { number >> (8 * first) } else { 0 };
        let rest = rest | part.0 << (8 * (length - first));
        if length - first + part.1 > 0 {
            self.close(rest, length - first + part.1, closing);
        }
    }

    /// Adds an address in hexadecimal, with `0x`.
    #[inline]
    pub(crate) fn address(&mut self, address: u64, closing: Closing) {
        self.decimal("0x", hexadecimal(address), (0, 0), closing);
    }

    /// As above, after `0x`.
    #[inline]
    pub(crate) fn address_digits(&mut self, address: u64, closing: Closing) {
        self.decimal("", hexadecimal(address), (0, 0), closing);
    }
}

/// What a time has in common with those of the same 100 seconds: `None` for times of the first 100 seconds.
pub(crate) fn upper(time: u64) -> Option<Step> {
    let upper = time / 1000 / UPPER;
    number_step(",\"ts\":", upper).filter(|_| upper > 0)
}

/// The times that have other digits in [`upper`], in microseconds.
const UPPER: u64 = 100_000_000;
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
const SPACES: u128 = u128::from_le_bytes([b' '; Step::SIZE]);

/// What follows eight digits of microseconds: the point, three digits, what closes the object, and spaces.
#[inline(always)]
fn fraction(nanoseconds: u64) -> u128 {
    const AROUND: u128 = u128::from_le_bytes(*b"\0\0\0\0\0\0\0\0.\0\0\0}   ");
    let digits = eight_digits((nanoseconds % 1000) as u32) >> 40;
    AROUND | u128::from(digits) << 72
}

/// Numbers from here on have more than 16 digits.
const LARGE: u64 = 10_000_000_000_000_000;

/// The lowest bytes, at most 15 of them.
#[inline(always)]
fn mask(bytes: usize) -> u128 {
    if bytes < Step::SIZE { (1 << (8 * bytes)) - 1 } else { u128::MAX }
}

/// The first bytes, at most 15, of a text.
#[inline]
fn first_bytes(text: &[u8], length: usize) -> u128 {
    if let Some(all) = text.first_chunk::<{ Step::SIZE }>() {
        return u128::from_le_bytes(*all) & mask(length);
    }
    short_word(text.get(..length).unwrap_or(text))
}

/// A text of at most 16 bytes as a word.
#[inline(always)]
fn short_word(text: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        // They overlap.
        let shift = 8 * (text.len().min(Step::SIZE) - 8);
        return u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << shift;
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let shift = 8 * (text.len() - 4);
        return (u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift).into();
    }
    let mut word = 0_u32;
    for byte in text.iter().rev() {
        word = word << 8 | u32::from(*byte);
    }
    word.into()
}

/// The digits of a number below [`LARGE`], as a word and its length.
#[inline(always)]
fn decimal(number: u64) -> (u128, usize) {
    let (high, low) = ((number / 100_000_000) as u32, (number % 100_000_000) as u32);
    let last = eight_digits(low);
    // The last digit counts, even if it is 0.
    let leading = |digits: u64| ((digits ^ ZEROS) | 1 << 56).trailing_zeros() as usize / 8;
    if high == 0 {
        let skipped = leading(last);
        return (u128::from(last >> (8 * skipped)), 8 - skipped);
    }
    let first = eight_digits(high);
    let skipped = leading(first);
    ((u128::from(first) | u128::from(last) << 64) >> (8 * skipped), Step::SIZE - skipped)
}

/// The hexadecimal digits of a number, as a word and its length.
#[inline(always)]
fn hexadecimal(number: u64) -> (u128, usize) {
    let skipped = (number | 1).leading_zeros() as usize / 4;
    let digits =
        u128::from(eight_hexadecimal((number >> 32) as u32)) | u128::from(eight_hexadecimal(number as u32)) << 64;
    (digits >> (8 * skipped), Step::SIZE - skipped)
}

/// The eight hexadecimal digits of a number, the first in the lowest byte. All at once, as the decimal ones.
#[inline(always)]
fn eight_hexadecimal(number: u32) -> u64 {
    let halves = u64::from(number >> 16) | u64::from(number & 0xffff) << 32;
    let bytes = ((halves >> 8) & 0x00ff_0000_00ff) | (halves & 0x00ff_0000_00ff) << 16;
    let digits = ((bytes >> 4) & 0x000f_000f_000f_000f) | (bytes & 0x000f_000f_000f_000f) << 8;
    // 1 where the digit is a letter: it is 10 or more.
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    digits + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10)
}

/// The eight digits of a number below 10^8, the first in the lowest byte. All at once: each line does one division for
/// all pairs of digits that the line before has made.
#[inline(always)]
fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | (twos - 10 * tens) << 8;
    ones | 0x3030_3030_3030_3030
}

/// The steps of a member's key in the inner object, up to its value: ASCII that needs no escaping. `before` is what comes
/// before the quote, of at most 3 bytes, and `value` what comes after the colon: the begin of a string, or nothing.
pub(crate) fn inner_key(before: &str, key: &str, value: &str) -> Vec<Step> {
    let mut record = Record::new();
    let begin = key.len().min(INNER_KEY.room() - before.len() - 1);
    let (begin, rest) = key.split_at_checked(begin).unwrap_or((key, ""));
    record.step(Step::new(&format!("{before}\"{begin}"), INNER_KEY.text));
    let closing = if value.is_empty() { INNER_VALUE } else { INNER_STRING };
    // The end of the key goes with what comes after it.
    let end = rest.len() - rest.len().min(closing.room() - 2 - value.len());
    let (middle, end) = rest.split_at_checked(end).unwrap_or((rest, ""));
    record.clean(middle.as_bytes(), INNER_KEY);
    record.step(Step::new(&format!("{end}\":{value}"), closing.text));
    record.steps()
}

/// The steps of a text in any object: ASCII that needs no escaping.
pub(crate) fn clean_steps(text: &str, closing: Closing) -> Vec<Step> {
    let mut record = Record::new();
    record.clean(text.as_bytes(), closing);
    record.steps()
}

/// The steps of a value in a string in the inner object, as it prints itself.
pub(crate) fn debug_steps(value: &dyn fmt::Debug, limit: usize) -> Vec<Step> {
    let mut record = Record::new();
    record.debug(value, INNER_STRING, limit);
    record.steps()
}

/// The step of a number as a member of the record, whose key has at most 8 bytes; `None` if it is too large for one.
pub(crate) fn number_step(prefix: &'static str, number: u64) -> Option<Step> {
    let mut record = Record::new();
    record.number(prefix, number, OBJECT);
    match record.steps().as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// What steps add to a record, in bytes.
pub(crate) fn bytes_of(steps: &[Step]) -> usize {
    steps.iter().map(|step| usize::from(step.advance)).sum()
}

/// A string that is being written.
struct InString<'a, S> {
    record: &'a mut Record<S>,
    closing: Closing,
    piece: u128,
    length: usize,
    left: usize,
}

impl<S: Sink> InString<'_, S> {
    fn add(&mut self, text: &str) {
        // Nearly all texts, and those of graphs are long.
        let is_clean = text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
        if is_clean && text.len() <= self.left {
            self.flush();
            self.left -= text.len();
            return self.record.clean(text.as_bytes(), self.closing);
        }
        for letter in text.chars() {
            let mut buffer = [0; 6];
            let unit = match letter {
                '"' => &b"\\\""[..],
                '\\' => &b"\\\\"[..],
                '\n' => &b"\\n"[..],
                control if control < ' ' => {
                    buffer = *b"\\u0000";
                    let [.., high, low] = &mut buffer;
                    let code = control as u8;
                    *high = b'0' + (code >> 4);
                    *low = if code & 15 < 10 { b'0' + (code & 15) } else { b'a' - 10 + (code & 15) };
                    &buffer[..]
                }
                other => other.encode_utf8(&mut buffer).as_bytes(),
            };
            if unit.len() > self.left {
                self.left = 0;
                return;
            }
            self.left -= unit.len();
            if self.length + unit.len() > self.closing.room() {
                self.flush();
            }
            for byte in unit {
                self.piece |= u128::from(*byte) << (8 * self.length);
                self.length += 1;
            }
        }
    }

    fn flush(&mut self) {
        if self.length > 0 {
            self.record.close(self.piece, self.length, self.closing);
            (self.piece, self.length) = (0, 0);
        }
    }
}

impl<S: Sink> fmt::Write for InString<'_, S> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text);
        Ok(())
    }
}

/// The digits of a number, written from the last to the first.
struct Digits {
    text: [u8; Digits::SIZE],
    start: usize,
}

impl Digits {
    const SIZE: usize = 32;
    /// Two decimal digits each.
    #[allow(clippy::indexing_slicing, reason = "the compiler does it")]
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut number = 0;
        while number < 100 {
            pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            number += 1;
        }
        pairs
    };

    #[inline]
    fn new() -> Self {
        Digits { text: [0; Digits::SIZE], start: Digits::SIZE }
    }

    /// The last two digits of what is before.
    #[inline]
    fn pair(&mut self, number: usize) {
        self.start = self.start.saturating_sub(2);
        let digits = Digits::PAIRS.get(number).copied().unwrap_or_default();
        if let Some(to) = self.text.get_mut(self.start..).and_then(<[u8]>::first_chunk_mut) {
            *to = digits;
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.start = self.start.saturating_sub(1);
        if let Some(to) = self.text.get_mut(self.start) {
            *to = byte;
        }
    }

    #[inline]
    fn put(&mut self, number: u64) {
        let mut rest = number;
        while rest >= 100 {
            self.pair((rest % 100) as usize);
            rest /= 100;
        }
        if rest >= 10 {
            self.pair(rest as usize);
        } else {
            self.byte(b'0' + rest as u8);
        }
    }

    #[inline]
    fn put_prefix(&mut self, prefix: &str) {
        for byte in prefix.bytes().rev() {
            self.byte(byte);
        }
    }

    #[inline]
    fn get(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// The bytes of a file of spaces after each step.
    fn states(record: &Record<Vec<Step>>) -> Vec<String> {
        let mut bytes = vec![b' '; bytes_of(&record.0) + 16];
        let mut at = 0;
        let mut states = vec![String::from_utf8(bytes.clone()).unwrap()];
        for step in &record.0 {
            bytes[at..at + Step::SIZE].copy_from_slice(&step.word.to_le_bytes());
            at += usize::from(step.advance);
            states.push(String::from_utf8(bytes.clone()).unwrap());
        }
        states
    }

    fn sample() -> Record<Vec<Step>> {
        let mut record = Record::new();
        record.step(Step::new(",{\"name\":\"", STRING.text));
        record.text("a \"name\" \\ of\u{1}\nmore than 16 bytes, caf\u{e9} \u{1f600}", STRING, 100);
        record.number("\",\"tid\":", u64::MAX, OBJECT);
        record.thousandths(",\"ts\":", 1_234_567_890_123_456, OBJECT);
        record.thousandths(",\"dur\":", 7, OBJECT);
        record.step(Step::new(",\"args\":{", "}}"));
        record.step(Step::new("\"h\":\"", INNER_STRING.text));
        record.address(0xdead_beef_0123, INNER_STRING);
        record.extend(&inner_key("\",", "a key: const void *", ""));
        record.number("", 12, INNER);
        record.extend(&inner_key(",", "another: void *", "\"0x"));
        record.address_digits(0x0123_4567_89ab_cdef, INNER_STRING);
        record.step(Step::new("\"", INNER.text));
        record.step(Step::new("}", OBJECT.text));
        record.step(Step::new(",\"ph\":\"X\"}\n", ""));
        record
    }

    #[test]
    fn a_record_is_what_was_put_in() {
        let last = states(&sample()).pop().unwrap();
        let expected = ",{\"name\":\"a \\\"name\\\" \\\\ of\\u0001\\nmore than 16 bytes, caf\u{e9} \u{1f600}\",\
            \"tid\":18446744073709551615,\"ts\":1234567890123.456,\"dur\":0.007,\"args\":{\"h\":\"0xdeadbeef0123\",\
            \"a key: const void *\":12,\"another: void *\":\"0x123456789abcdef\"},\"ph\":\"X\"}";
        assert_eq!(last.trim_end(), expected);
    }

    #[test]
    fn each_step_leaves_valid_json() {
        for state in states(&sample()) {
            let document = format!("[0{state}]");
            assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok(), "{document}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_cut_into_valid_ones() {
        for shift in 0..62 {
            let mut record = Record::new();
            record.step(Step::new(",{\"n\":\"", STRING.text));
            record.thousandths("\",\"ts\":", u64::MAX >> shift, OBJECT);
            record.step(Step::new(",\"ph\":\"X\"}\n", ""));
            for state in states(&record) {
                let document = format!("[0{state}]");
                assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok(), "{document}");
            }
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        let powers = (0..20).map(|exponent| 10_u64.pow(exponent));
        let numbers = powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 9]).chain([u64::MAX]);
        for number in numbers {
            let time = number % (LARGE * 1000);
            let mut record = Record::new();
            record.number(",\"n\":", number, OBJECT);
            record.thousandths(",\"t\":", time, OBJECT);
            record.step(Step::new("}", ""));
            let expected = format!(",\"n\":{number},\"t\":{}.{:03}}}", time / 1000, time % 1000);
            assert_eq!(states(&record).pop().unwrap().trim_end(), expected);
        }
    }

    #[test]
    fn times_are_cut_into_valid_numbers() {
        let powers = (0..19).map(|exponent| 10_u64.pow(exponent));
        for time in powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 9]) {
            let mut record = Record::new();
            record.step(Step::new(",{\"n\":7", OBJECT.text));
            let upper = upper(time);
            assert_eq!(upper.is_some(), (100_000_000_000..100_000_000_000_000_000_000).contains(&u128::from(time)));
            let mut expected = String::from(",{\"n\":7");
            let shown = format!("{}.{:03}", time / 1000, time % 1000);
            if let Some(upper) = upper {
                record.step(upper);
                record.lower(time);
                expected += &format!(",\"ts\":{shown}");
            }
            record.duration(time);
            record.step(Step::new("}\n", ""));
            for state in states(&record) {
                let document = format!("[0{state}]");
                assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok(), "{document}");
            }
            assert_eq!(states(&record).pop().unwrap().trim_end(), format!("{expected},\"dur\":{shown}}}"));
        }
    }

    #[test]
    fn addresses_are_written_in_hexadecimal() {
        let powers = (0..16).map(|exponent| 16_u64.pow(exponent));
        for number in
            powers.flat_map(|power| [power - 1, power, power * 10 + 1]).chain([0xfedc_ba98_7654_3210, u64::MAX])
        {
            let mut record = Record::new();
            record.step(Step::new(",{\"n\":\"", STRING.text));
            record.address(number, STRING);
            record.step(Step::new("\"}", ""));
            assert_eq!(states(&record).pop().unwrap().trim_end(), format!(",{{\"n\":\"{number:#x}\"}}"));
        }
    }

    #[test]
    fn keys_of_any_length_are_cut_into_valid_ones() {
        for length in 1..60 {
            for (before, value) in [("", ""), (",", "\""), (",", ""), (",", "\"0x")] {
                let key = &"abcdefghijklmnopqrstuvwxyz: abcdefghijklmnopqrstuvwxyz _ ABCDEFGHI"[..length];
                let mut record = Record::new();
                record.step(Step::new(",{\"n\":7", OBJECT.text));
                record.step(Step::new(",\"args\":{", "}}"));
                if !before.is_empty() {
                    record.step(Step::new("\"c\":0", "}}"));
                }
                record.extend(&inner_key(before, key, value));
                if value.is_empty() {
                    record.number("", 7, INNER);
                } else {
                    record.step(Step::new("7\"", "}}"));
                }
                record.step(Step::new("}", OBJECT.text));
                record.step(Step::new("}\n", ""));
                for state in states(&record) {
                    let document = format!("[0{state}]");
                    assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok(), "{document}");
                }
                let last = states(&record).pop().unwrap();
                assert!(last.contains(&format!("{before}\"{key}\":{value}7")), "{last}");
            }
        }
    }

    #[test]
    fn a_text_is_cut_where_it_is_too_long() {
        let mut record = Record::new();
        record.step(Step::new(",{\"n\":\"", STRING.text));
        record.text(&"\u{e9}".repeat(1000), STRING, 101);
        record.step(Step::new("\"}\n", ""));
        let last = states(&record).pop().unwrap();
        assert_eq!(last.trim_end(), format!(",{{\"n\":\"{}\"}}", "\u{e9}".repeat(50)));
    }
}

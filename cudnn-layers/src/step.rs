//! A piece of JSON that is valid wherever the writing stops.
//!
//! The file of the trace must be complete JSON whenever the process ends, also in the middle of a record. So a record is
//! written in steps of 16 bytes. Each is a piece of the record, then what closes all that the record has open there, then
//! spaces. The next step begins at the closing, and so replaces it. An object with two members, in three steps:
//!
//! ```text
//! ,{"name":"cud"}
//! ,{"name":"cudnnCreate"}
//! ,{"name":"cudnnCreate","tid":7}
//! ```

/// One step. Packed, because a call copies dozens of them, which are in no cache after the program's own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed)]
pub(crate) struct Step {
    /// The bytes, the first in the lowest.
    pub(crate) word: u128,
    /// The length of the piece.
    pub(crate) advance: u8,
}

impl Step {
    /// The bytes of a step.
    pub(crate) const SIZE: usize = 16;
    /// A short piece, and what closes it. Both together have at most 16 bytes; more is cut off.
    pub(crate) const fn new(piece: &str, closing: &str) -> Step {
        Step::from_bytes(piece.as_bytes(), closing.as_bytes())
    }

    /// As above.
    pub(crate) const fn from_bytes(piece: &[u8], closing: &[u8]) -> Step {
        let (word, length) = append(SPACES, 0, piece);
        let (word, _) = append(word, length, closing);
        Step { word, advance: length as u8 }
    }
}

/// What steps are written to, one behind the other.
pub(crate) trait Sink {
    /// Takes the next step, if there is room for its piece.
    fn put(&mut self, step: Step);

    /// The bytes that there is room for.
    fn left(&self) -> usize;
}

/// To write them later.
impl Sink for Vec<Step> {
    fn put(&mut self, step: Step) {
        self.push(step);
    }

    fn left(&self) -> usize {
        usize::MAX
    }
}

const SPACES: u128 = u128::from_le_bytes([b' '; Step::SIZE]);

/// Puts bytes into a word from this offset on.
const fn append(mut word: u128, mut offset: u32, bytes: &[u8]) -> (u128, u32) {
    let mut rest = bytes;
    while let [first, others @ ..] = rest {
        if offset as usize >= Step::SIZE {
            break;
        }
        word &= !(0xff_u128 << (8 * offset));
        word |= (*first as u128) << (8 * offset);
        offset += 1;
        rest = others;
    }
    (word, offset)
}

//! A buffer with an unambiguous encoding, for keys.

#[derive(Default)]
pub(super) struct KeyBytes(pub(super) Vec<u8>);

impl KeyBytes {
    pub(super) fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn block(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u64).to_le_bytes());
        self.0.extend(bytes);
    }
}

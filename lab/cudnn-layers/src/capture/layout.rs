//! Describes the memory of an execution by buffers and offsets instead of addresses.

use cudnn_store::captures::Memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    pub(super) address: u64,
    /// The size in bytes, if it is known.
    pub(super) span: Option<u64>,
    pub(super) is_host: bool,
}

impl AddressRange {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.span.unwrap_or(0))
    }
}

/// The largest alignment that is distinguished.
const MAX_ALIGNMENT: u32 = 12;

/// Describes ranges. Overlapping ranges share a buffer. Buffers are numbered in the order of the ranges.
pub(super) fn buffers(ranges: &[AddressRange]) -> Vec<Memory> {
    let mut sorted: Vec<(usize, &AddressRange)> = ranges.iter().enumerate().collect();
    sorted.sort_by_key(|(_, range)| (range.is_host, range.address));
    // The first address of each range's buffer.
    let mut starts = vec![0; ranges.len()];
    let mut buffer: Option<(bool, u64, u64)> = None;
    for (place, range) in sorted {
        let (start, end) = match buffer {
            Some((is_host, start, end))
                if is_host == range.is_host && (range.address < end || range.address == start) =>
            {
                (start, end)
            }
            _ => (range.address, range.end()),
        };
        buffer = Some((range.is_host, start, end.max(range.end())));
        if let Some(of_range) = starts.get_mut(place) {
            *of_range = start;
        }
    }
    let mut numbered: Vec<(bool, u64)> = Vec::new();
    let describe = |(range, start): (&AddressRange, u64)| {
        let key = (range.is_host, start);
        let buffer = numbered.iter().position(|known| *known == key).unwrap_or_else(|| {
            numbered.push(key);
            numbered.len() - 1
        });
        let offset = range.address - start;
        let alignment = 1 << range.address.trailing_zeros().min(MAX_ALIGNMENT);
        Memory { buffer, offset, span: range.span, alignment, is_host: range.is_host }
    };
    ranges.iter().zip(starts).map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(address: u64, span: u64) -> AddressRange {
        AddressRange { address, span: Some(span), is_host: false }
    }

    #[test]
    fn ranges_that_overlap_share_a_buffer() {
        let ranges = [range(0x5000, 16), range(0x1000, 0x100), range(0x1100, 8), range(0x1080, 0x84), range(0x1104, 4)];
        let places: Vec<_> = buffers(&ranges).iter().map(|memory| (memory.buffer, memory.offset)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (1, 0x100), (1, 0x80), (1, 0x104)]);
        let host = AddressRange { is_host: true, ..range(0x1000, 8) };
        assert_eq!(buffers(&[range(0x1000, 8), host]).last().map(|memory| memory.buffer), Some(1));
        let alignments: Vec<_> = buffers(&ranges).iter().map(|memory| memory.alignment).collect();
        assert_eq!(alignments, [4096, 4096, 256, 128, 4]);
        let ranges = [range(0x1100, 8), range(0x1000, 0x100), range(0x1108, 4)];
        assert_eq!(buffers(&ranges).iter().map(|memory| memory.buffer).collect::<Vec<_>>(), [0, 1, 2]);
        let unknown = AddressRange { span: None, ..range(0x1100, 0) };
        let ranges = [unknown, range(0x1000, 0x100), range(0x1100, 8), unknown];
        assert_eq!(buffers(&ranges).iter().map(|memory| memory.buffer).collect::<Vec<_>>(), [0, 1, 0, 0]);
        assert_eq!(buffers(&[AddressRange { span: None, ..range(u64::MAX, 0) }, range(u64::MAX - 1, 99)]).len(), 2);
    }
}

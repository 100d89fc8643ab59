//! Lays out the tensors of a graph in buffers with red zones, and finds bytes that must not have changed.

use std::collections::BTreeMap;
use std::ops::Range;

use cudnn_store::captures::ExecutionRecord;
use rayon::prelude::*;

use super::element;
use super::tensor::{Array, ELEMENTS_AT_ONCE, Tensor};
use crate::captured_memory::CapturedMemory;

/// A multiple of the alignment of memory from the driver.
pub(super) const RED_ZONE: usize = 4096;
/// The byte of red zones and gaps. Floating-point numbers of such bytes are NaN.
pub(super) const PATTERN: u8 = 0xff;

#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) buffers: Vec<Buffer>,
    pub(super) places: Vec<TensorPlace>,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) is_host: bool,
    pub(super) bytes: Vec<u8>,
    /// Whether all bytes are the [`PATTERN`].
    pub(super) is_empty: bool,
    /// The bytes that an execution may change.
    writable: ByteSet,
}

/// A set of bytes, with one bit per byte.
#[derive(Clone, Debug)]
struct ByteSet(Vec<u64>);

impl ByteSet {
    const BLOCK: usize = 64;

    fn new(size: usize) -> Self {
        ByteSet(vec![0; size.div_ceil(Self::BLOCK)])
    }

    fn insert(&mut self, range: Range<usize>) {
        let mut start = range.start;
        while start < range.end {
            let block = start / Self::BLOCK;
            let end = range.end.min((block + 1) * Self::BLOCK);
            if let Some(bits) = self.0.get_mut(block) {
                *bits |= u64::MAX >> (Self::BLOCK - (end - start)) << (start % Self::BLOCK);
            }
            start = end;
        }
    }

    /// Returns the bits of a block, with the first byte in the lowest bit.
    fn block(&self, block: usize) -> u64 {
        self.0.get(block).copied().unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
pub(super) struct TensorPlace {
    pub(super) tensor: Tensor,
    pub(super) buffer: usize,
    /// The distance from the start of the buffer, including the red zone.
    pub(super) offset: usize,
}

impl Memory {
    /// Lays out tensors as in an execution, in at most `max` bytes. Other tensors get separate buffers.
    pub(super) fn new(tensors: Vec<Tensor>, execution: Option<&ExecutionRecord>, max: usize) -> Result<Self, String> {
        let captured = CapturedMemory::new(execution);
        let mut memory = Memory { buffers: Vec::new(), places: Vec::new() };
        // The indices of captured buffers.
        let mut buffers = BTreeMap::<(usize, bool), usize>::new();
        let mut sizes: Vec<(bool, usize)> = Vec::new();
        for tensor in tensors {
            let Some(size) = element::size(tensor.ty) else {
                return Err(format!("tensor {} has an element type that is not supported", tensor.uid));
            };
            // Elements may share memory.
            if tensor.count() > max / size {
                return Err(too_large(tensor.count().saturating_mul(size), max));
            }
            let known = captured.place_of(tensor.uid);
            let known = known.filter(|known| known.is_host == tensor.is_by_value && known.offset < max as u64);
            let (buffer, offset) = match known {
                Some(known) => {
                    let buffer = *buffers.entry((known.buffer, known.is_host)).or_insert_with(|| {
                        sizes.push((tensor.is_by_value, 0));
                        sizes.len() - 1
                    });
                    let start = captured.misalignment(known.buffer, known.is_host) as usize;
                    (buffer, RED_ZONE + start + known.offset as usize)
                }
                None => {
                    sizes.push((tensor.is_by_value, 0));
                    (sizes.len() - 1, RED_ZONE)
                }
            };
            if let Some((_, size)) = sizes.get_mut(buffer) {
                *size = (*size).max(offset + tensor.span() + RED_ZONE);
            }
            memory.places.push(TensorPlace { tensor, buffer, offset });
        }
        let total: usize = sizes.iter().map(|(_, size)| size).sum();
        if total > max {
            return Err(too_large(total, max));
        }
        memory.buffers = sizes
            .into_iter()
            .map(|(is_host, size)| Buffer {
                is_host,
                bytes: vec![PATTERN; size],
                is_empty: true,
                writable: ByteSet::new(size),
            })
            .collect();
        Ok(memory)
    }

    pub(super) fn fill(&mut self, place: &TensorPlace, value: impl Fn(u64) -> f64 + Sync) {
        let Some(buffer) = self.buffers.get_mut(place.buffer) else { return };
        let Some(bytes) = buffer.bytes.get_mut(place.offset..) else { return };
        buffer.is_empty = false;
        let Tensor { ty, .. } = place.tensor;
        let size = element::size(ty).unwrap_or(1);
        if let Some(indices) = place.tensor.indices_in_memory() {
            bytes.par_chunks_mut(ELEMENTS_AT_ONCE * size).enumerate().for_each(|(number, bytes)| {
                let indices = indices.clone().starting_at(number * ELEMENTS_AT_ONCE);
                for (bytes, [index]) in bytes.chunks_exact_mut(size).zip(indices) {
                    element::encode(ty, value(index as u64), bytes);
                }
            });
            return;
        }
        for (index, offset) in place.tensor.offsets().enumerate() {
            if let Some(bytes) = bytes.get_mut(offset * size..(offset + 1) * size) {
                element::encode(ty, value(index as u64), bytes);
            }
        }
    }

    /// Returns the memory from the first element of a tensor.
    fn start(&self, place: &TensorPlace) -> Option<&[u8]> {
        self.buffers.get(place.buffer)?.bytes.get(place.offset..)
    }

    pub(super) fn values(&self, is_wanted: impl Fn(i64) -> bool) -> BTreeMap<i64, Array> {
        let value = |place: &TensorPlace| Some((place.tensor.uid, place.tensor.read(self.start(place)?)));
        self.places.iter().filter(|place| is_wanted(place.tensor.uid)).filter_map(value).collect()
    }

    pub(super) fn element(&self, uid: i64, index: usize) -> Option<f64> {
        let place = self.places.iter().find(|place| place.tensor.uid == uid)?;
        Some(place.tensor.element(self.start(place)?, index))
    }

    pub(super) fn write(&mut self, place: &TensorPlace, bytes: &[u8]) {
        let end = place.offset + bytes.len().min(place.tensor.span());
        let Some(buffer) = self.buffers.get_mut(place.buffer) else { return };
        buffer.is_empty = false;
        if let Some(target) = buffer.bytes.get_mut(place.offset..end) {
            target.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
    }

    pub(super) fn allow_writes(&mut self, place: &TensorPlace) {
        let Some(buffer) = self.buffers.get_mut(place.buffer) else { return };
        let size = element::size(place.tensor.ty).unwrap_or(1);
        let has_gaps = place.tensor.count() * size != place.tensor.span();
        if !place.tensor.is_plain || !has_gaps {
            buffer.writable.insert(place.offset..place.offset + place.tensor.span());
            return;
        }
        for offset in place.tensor.offsets() {
            let start = place.offset + offset * size;
            buffer.writable.insert(start..start + size);
        }
    }

    pub(super) fn damage(&self, buffer: usize, after: &[u8]) -> Option<String> {
        let Buffer { bytes, writable, .. } = self.buffers.get(buffer)?;
        let blocks = bytes.chunks(ByteSet::BLOCK).zip(after.chunks(ByteSet::BLOCK)).enumerate();
        let changed = blocks.filter(|(block, (before, after))| writable.block(*block) != u64::MAX && before != after);
        let mut damaged = changed.flat_map(|(block, (before, after))| {
            let writable = writable.block(block);
            let is_damaged =
                move |(bit, (before, after)): &(usize, (&u8, &u8))| before != after && writable >> bit & 1 == 0;
            before.iter().zip(after).enumerate().filter(is_damaged).map(move |(bit, _)| block * ByteSet::BLOCK + bit)
        });
        let first = damaged.next()?;
        let count = damaged.count() + 1;
        let places = || self.places.iter().filter(|place| place.buffer == buffer);
        let end = |place: &TensorPlace| place.offset + place.tensor.span();
        let text = if let Some(inside) = places().find(|place| (place.offset..end(place)).contains(&first)) {
            let at = first - inside.offset;
            format!("at offset {at} of tensor {}, in an input or between elements", inside.tensor.uid)
        } else if let Some(before) = places().filter(|place| end(place) <= first).max_by_key(|place| end(place)) {
            format!("{} bytes after the end of tensor {}", first - end(before), before.tensor.uid)
        } else {
            let uid = places().map(|place| place.tensor.uid).next().unwrap_or(0);
            format!("before tensor {uid}")
        };
        Some(format!("{count} bytes were changed, the first one {text}"))
    }
}

fn too_large(bytes: usize, max: usize) -> String {
    format!("the tensors need {bytes} bytes of memory, and at most {max} are used")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_loader::cudnnDataType_t as DataType;

    const MAX: usize = 1 << 31;

    fn tensor(uid: i64, dims: &[usize], strides: &[usize]) -> Tensor {
        Tensor {
            uid,
            ty: DataType::CUDNN_DATA_HALF,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            is_virtual: false,
            is_by_value: false,
            is_plain: true,
        }
    }

    #[test]
    fn each_changed_byte_outside_of_outputs_is_found() {
        let mut memory = Memory::new(vec![tensor(1, &[4], &[1]), tensor(2, &[2, 2], &[4, 1])], None, MAX).unwrap();
        let [input, output] = [0, 1].map(|index| memory.places[index].clone());
        memory.fill(&input, |index| index as f64);
        memory.allow_writes(&output);
        assert_eq!(input.tensor.read(&memory.buffers[0].bytes[RED_ZONE..]).values, [0.0, 1.0, 2.0, 3.0]);
        let changed = |buffer: usize, at: usize| {
            let mut after = memory.buffers[buffer].bytes.clone();
            after[at] ^= 1;
            memory.damage(buffer, &after)
        };
        assert_eq!(changed(1, RED_ZONE), None);
        assert_eq!(changed(1, RED_ZONE + 8), None);
        for (buffer, at, text) in [
            (0, RED_ZONE + 3, "at offset 3 of tensor 1"),
            (1, RED_ZONE + 4, "at offset 4 of tensor 2"),
            (1, RED_ZONE + 12, "0 bytes after the end of tensor 2"),
            (1, 2 * RED_ZONE + 11, "4095 bytes after the end of tensor 2"),
            (1, 0, "before tensor 2"),
        ] {
            assert!(changed(buffer, at).unwrap().contains(text), "{text}: {:?}", changed(buffer, at));
        }
    }

    #[test]
    fn writable_bytes_are_exact() {
        for (start, end) in [(0, 1), (3, 64), (0, 64), (63, 65), (10, 200), (128, 128), (127, 256)] {
            let mut set = ByteSet::new(256);
            set.insert(start..end);
            let inside = (0..256).filter(|byte| set.block(byte / 64) >> (byte % 64) & 1 == 1);
            assert!(inside.eq(start..end), "{start} to {end}");
        }
    }

    #[test]
    fn tensors_above_the_limit_are_refused() {
        let refused = |dims: &[usize], strides: &[usize], max| {
            Memory::new(vec![tensor(1, dims, strides)], None, max).unwrap_err().contains("at most")
        };
        assert!(refused(&[1 << 31], &[1], MAX) && refused(&[1 << 40], &[0], MAX) && refused(&[2], &[1 << 31], MAX));
        assert!(refused(&[1], &[1], 2 * RED_ZONE) && refused(&[4], &[1], 0));
    }

    #[test]
    fn captured_offsets_and_alignments_are_reproduced() {
        let execution: ExecutionRecord = serde_json::from_str(
            r#"{"plan":0,"status":"SUCCESS","tensors":[
                {"uid":1,"memory":{"buffer":5,"offset":0,"alignment":2}},
                {"uid":2,"memory":{"buffer":5,"offset":4,"alignment":2}},
                {"uid":3,"memory":{"buffer":7,"offset":64,"alignment":4096}},
                {"uid":5,"memory":{"buffer":8,"offset":0,"alignment":16}},
                {"uid":6,"memory":{"buffer":8,"offset":48,"alignment":128}}]}"#,
        )
        .unwrap();
        let tensors = [1, 2, 3, 4, 5, 6].map(|uid| tensor(uid, &[4], &[1])).to_vec();
        let memory = Memory::new(tensors, Some(&execution), MAX).unwrap();
        let [first, overlapping, aligned, other, less_aligned, more_aligned] = &memory.places[..] else { panic!() };
        assert_eq!((first.buffer, overlapping.buffer, memory.buffers.len()), (0, 0, 4));
        assert_eq!((overlapping.offset - first.offset, first.offset % 4), (4, 2));
        assert_eq!((aligned.offset % 256, other.offset % 256), (0, 0));
        assert_eq!((less_aligned.offset % 128, more_aligned.offset % 256), (80, 128));
        let far: ExecutionRecord = serde_json::from_str(
            r#"{"plan":0,"status":"SUCCESS","tensors":[{"uid":1,"memory":{"buffer":0,"offset":2147483000,"alignment":1}}]}"#,
        )
        .unwrap();
        assert!(Memory::new(vec![tensor(1, &[4], &[1])], Some(&far), MAX).unwrap_err().contains("at most"));
    }
}

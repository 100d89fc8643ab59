//! The memory of a captured execution: where its tensors were, and how the buffers were aligned.

use std::collections::{BTreeMap, BTreeSet};

use cudnn_store::captures::{ExecutionRecord, Memory};

/// The alignment of memory from the driver.
const ALIGNMENT: u64 = 256;

#[derive(Default)]
pub(crate) struct CapturedMemory<'a> {
    tensors: BTreeMap<i64, &'a Memory>,
    /// The most aligned range of each buffer, which determines where the buffer started.
    most_aligned: BTreeMap<(usize, bool), &'a Memory>,
}

impl<'a> CapturedMemory<'a> {
    pub(crate) fn new(execution: Option<&'a ExecutionRecord>) -> Self {
        let mut captured = CapturedMemory::default();
        let Some(execution) = execution else { return captured };
        let has_placeholders = has_placeholders(execution);
        let is_known = |memory: &&Memory| memory.is_host || !has_placeholders;
        for tensor in &execution.tensors {
            if let Some(memory) = tensor.memory.as_ref().filter(is_known) {
                captured.tensors.entry(tensor.uid).or_insert(memory);
                captured.add_range(memory);
            }
        }
        execution.workspace.iter().filter(is_known).for_each(|memory| captured.add_range(memory));
        captured
    }

    fn add_range(&mut self, range: &'a Memory) {
        let best = self.most_aligned.entry((range.buffer, range.is_host)).or_insert(range);
        if range.alignment > best.alignment {
            *best = range;
        }
    }

    /// Returns the memory of a tensor, unless its address was a null pointer or meaningless.
    pub(crate) fn place_of(&self, uid: i64) -> Option<&'a Memory> {
        self.tensors.get(&uid).copied()
    }

    /// Returns the distance of a buffer's start from an aligned address, so that the addresses in it have the captured
    /// alignment.
    pub(crate) fn misalignment(&self, buffer: usize, is_host: bool) -> u64 {
        let range = self.most_aligned.get(&(buffer, is_host));
        range.map_or(0, |range| range.alignment.wrapping_sub(range.offset) % ALIGNMENT)
    }
}

/// Returns whether the addresses are meaningless, because a CUDA graph was filled with the same address for several
/// tensors. XLA does this, and sets the actual addresses when it launches the graph.
fn has_placeholders(execution: &ExecutionRecord) -> bool {
    let mut places = BTreeSet::new();
    let device_memory =
        execution.tensors.iter().filter_map(|tensor| tensor.memory.as_ref()).filter(|place| !place.is_host);
    execution.in_cuda_graph
        && !device_memory.map(|place| (place.buffer, place.offset)).all(|place| places.insert(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(in_cuda_graph: bool, places: &[(u64, u64)]) -> ExecutionRecord {
        let tensor = |(uid, (offset, alignment)): (usize, &(u64, u64))| {
            format!(r#"{{"uid":{uid},"memory":{{"buffer":0,"offset":{offset},"alignment":{alignment}}}}}"#)
        };
        let tensors: Vec<String> = places.iter().enumerate().map(tensor).collect();
        let text = format!(
            r#"{{"plan":0,"status":"SUCCESS","in_cuda_graph":{in_cuda_graph},"tensors":[{}]}}"#,
            tensors.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_most_aligned_range_determines_the_start_of_a_buffer() {
        for (ranges, start) in [
            (&[(0, 16)][..], 16),
            (&[(0, 4096)], 0),
            (&[(48, 512), (0, 16)], 256 - 48),
            (&[(0, 16), (48, 512)], 256 - 48),
            (&[(0, 16), (48, 64)], 16),
            (&[(1 << 40, 2)], 2),
            (&[], 0),
        ] {
            let execution = execution(false, ranges);
            assert_eq!(CapturedMemory::new(Some(&execution)).misalignment(0, false), start, "{ranges:?}");
        }
    }

    #[test]
    fn equal_addresses_in_a_cuda_graph_are_meaningless() {
        for (in_cuda_graph, offset, is_known) in [(true, 0, false), (true, 8, true), (false, 0, true)] {
            let execution = execution(in_cuda_graph, &[(0, 1024), (offset, 8)]);
            let captured = CapturedMemory::new(Some(&execution));
            assert_eq!([0, 1].map(|uid| captured.place_of(uid).is_some()), [is_known; 2], "{in_cuda_graph} {offset}");
        }
    }
}

//! Chooses the integers that attention reads: lengths of sequences, and offsets of ragged tensors.
//!
//! With zeros, engines would compute nothing, or would write all sequences to the same memory.

use std::collections::BTreeMap;

use cudnn_graph::{Attribute, Graph, Node};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

/// Numbers with equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EquallySpaced {
    pub(crate) first: u64,
    pub(crate) step: u64,
}

impl EquallySpaced {
    pub(crate) fn at(self, index: u64) -> u64 {
        self.first.saturating_add(self.step.saturating_mul(index))
    }
}

/// The numbers by the uid of their tensor.
pub(crate) type AttentionInputs = BTreeMap<i64, EquallySpaced>;

/// Finds the tensors in one pass, because a capture can have many tensors and attributes. All sequences have the
/// greatest length. Numbers that several tensors share are valid for all of them.
pub(crate) fn attention_inputs(graph: &Graph) -> AttentionInputs {
    let mut inputs = AttentionInputs::new();
    let mut add = |tensors: Vec<&Node>, first, step| {
        for uid in tensors.into_iter().filter_map(Node::uid) {
            let numbers = inputs.entry(uid).or_insert(EquallySpaced { first, step });
            *numbers = EquallySpaced { first: numbers.first.min(first), step: numbers.step.min(step) };
        }
    };
    for tensor in graph.tensors() {
        if let Some(stride) = tensor.strides().first().and_then(|stride| u64::try_from(*stride).ok()) {
            let unit = tensor.integer(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER);
            let unit = unit.and_then(|unit| u64::try_from(unit).ok()).unwrap_or(1).max(1);
            add(graph.children(tensor, Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC), 0, stride / unit);
        }
    }
    for operation in graph.operations() {
        for attribute in &operation.attributes {
            let name = attribute.name.name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            let Some((start, end)) = name.split_once("SEQ_LEN_") else { continue };
            let cumulative = start.strip_suffix("CU_");
            let operand = if end.starts_with("KV") { "KDESC" } else { "QDESC" };
            let start = cumulative.unwrap_or(start);
            // The tensor of a paged operand contains blocks, which the table lists for each sequence.
            let blocks = sequence_extent(graph, operation, &format!("{start}PAGE_TABLE_{operand}")).unwrap_or(1);
            if let Some(length) = sequence_extent(graph, operation, &format!("{start}{operand}")) {
                let longest = length.saturating_mul(blocks);
                let (first, step) = if cumulative.is_some() { (0, longest) } else { (longest, 0) };
                add(graph.children(operation, attribute.name), first, step);
            }
        }
    }
    inputs
}

/// Returns the last but one extent of an operand: the length of its sequences.
fn sequence_extent(graph: &Graph, operation: &Node, operand: &str) -> Option<u64> {
    let is_operand = |other: &&Attribute| other.name.name().is_some_and(|name| name.to_bytes() == operand.as_bytes());
    let operand = operation.attributes.iter().find(is_operand)?;
    let tensor = *graph.children(operation, operand.name).first()?;
    u64::try_from(*tensor.extents().iter().rev().nth(1)?).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An attention with an attribute that is unknown to these bindings, with a ragged tensor of queries, and with the
    /// lengths of queries, as such and as sums.
    pub(crate) const ATTENTION: &str = r##"[{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[3,1,1,1],"STRIDES:3":[1,1,1,1],"UNIQUE_ID:3":3},{"kind":"TENSOR","DATA_TYPE:1":2,"DIMENSIONS:3":[2,4,96,64],"STRIDES:3":[24576,64,256,1],"UNIQUE_ID:3":1,"RAGGED_OFFSET_DESC:15":0},{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[2,1,1,1],"STRIDES:3":[1,1,1,1],"UNIQUE_ID:3":2},{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[3,1,1,1],"STRIDES:3":[1,1,1,1],"UNIQUE_ID:3":4},{"kind":"OPERATION_SDPA_FWD","#99999:3":7,"OPERATION_SDPA_FWD_QDESC:15":1,"OPERATION_SDPA_FWD_SEQ_LEN_QDESC:15":2,"OPERATION_SDPA_FWD_CU_SEQ_LEN_QDESC:15":3},{"kind":"OPERATIONGRAPH","OPS:15":4}]"##;

    #[test]
    fn unknown_attributes_do_not_hide_the_lengths_of_sequences() {
        let graph: Graph = serde_json::from_str(ATTENTION).unwrap();
        let expected = [(2, 96, 0), (3, 0, 24576), (4, 0, 96)];
        let expected = expected.map(|(uid, first, step)| (uid, EquallySpaced { first, step }));
        assert_eq!(attention_inputs(&graph), AttentionInputs::from(expected));
    }

    #[test]
    fn shared_numbers_are_valid_for_all_tensors() {
        let tensor = |uid, length, stride, offsets| {
            format!(
                r#"{{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[2,1,{length},1],"STRIDES:3":[{stride},1,1,1],"UNIQUE_ID:3":{uid}{offsets}}}"#
            )
        };
        for [first, second] in [[64, 32], [32, 64]] {
            let ragged = [(3, first), (4, second)];
            let [queries, keys] =
                ragged.map(|(uid, length)| tensor(uid, length, length, r#","RAGGED_OFFSET_DESC:15":0"#));
            let nodes = format!(
                r#"[{},{},{queries},{keys},{{"kind":"OPERATION_SDPA_FWD","OPERATION_SDPA_FWD_QDESC:15":2,"OPERATION_SDPA_FWD_KDESC:15":3,"OPERATION_SDPA_FWD_SEQ_LEN_QDESC:15":1,"OPERATION_SDPA_FWD_SEQ_LEN_KVDESC:15":1}},{{"kind":"OPERATIONGRAPH","OPS:15":4}}]"#,
                tensor(1, 1, 1, ""),
                tensor(2, 1, 1, ""),
            );
            let graph: Graph = serde_json::from_str(&nodes).unwrap();
            let expected = [(1, 0, 32), (2, 32, 0)].map(|(uid, first, step)| (uid, EquallySpaced { first, step }));
            assert_eq!(attention_inputs(&graph), AttentionInputs::from(expected));
        }
    }

    #[test]
    fn pages_contain_parts_of_sequences() {
        // Five blocks of 16 keys, of which each of the two sequences has three.
        let graph: Graph = serde_json::from_str(
            r#"[{"kind":"TENSOR","DATA_TYPE:1":2,"DIMENSIONS:3":[5,4,16,64],"STRIDES:3":[4096,1024,64,1],"UNIQUE_ID:3":1},{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[2,1,3,1],"STRIDES:3":[3,3,1,1],"UNIQUE_ID:3":2},{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[2,1,1,1],"STRIDES:3":[1,1,1,1],"UNIQUE_ID:3":3},{"kind":"OPERATION_SDPA_FWD","OPERATION_SDPA_FWD_KDESC:15":0,"OPERATION_SDPA_FWD_PAGE_TABLE_KDESC:15":1,"OPERATION_SDPA_FWD_SEQ_LEN_KVDESC:15":2},{"kind":"OPERATIONGRAPH","OPS:15":3}]"#,
        )
        .unwrap();
        assert_eq!(attention_inputs(&graph), [(3, EquallySpaced { first: 48, step: 0 })].into());
    }
}

//! Chooses the lengths of sequences for attention.

use std::collections::BTreeMap;

use cudnn_graph::{Attribute, Graph};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

/// The longest sequences of attentions, by the uids of the tensors with the lengths.
pub(crate) type SequenceLengths = BTreeMap<i64, u64>;

/// Finds the lengths in one pass, because a capture can have many tensors and attributes.
pub(crate) fn sequence_lengths(graph: &Graph) -> SequenceLengths {
    let mut lengths = SequenceLengths::new();
    for operation in graph.operations() {
        for attribute in &operation.attributes {
            let name = attribute.name.name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            let Some((start, end)) = name.split_once("SEQ_LEN_") else { continue };
            let sibling = format!("{start}{}", if end.starts_with("KV") { "KDESC" } else { "QDESC" });
            let is_sibling =
                |other: &&Attribute| other.name.name().is_some_and(|name| name.to_bytes() == sibling.as_bytes());
            let sibling = operation.attributes.iter().find(is_sibling);
            let longest = sibling.and_then(|sibling| {
                let tensor = *graph.children(operation, sibling.name).first()?;
                let length = tensor.integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS).iter().rev().nth(1)?;
                u64::try_from(*length).ok()
            });
            if let Some(longest) = longest {
                let tensors = graph.children(operation, attribute.name).into_iter();
                let uids = tensors.filter_map(|tensor| tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID));
                lengths.extend(uids.map(|uid| (uid, longest)));
            }
        }
    }
    lengths
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An attention with an attribute that is unknown to these bindings, and with the lengths of queries.
    pub(crate) const ATTENTION: &str = r##"[{"kind":"TENSOR","DATA_TYPE:1":2,"DIMENSIONS:3":[2,4,96,64],"STRIDES:3":[24576,6144,64,1],"UNIQUE_ID:3":1},{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[2,1,1,1],"STRIDES:3":[1,1,1,1],"UNIQUE_ID:3":2},{"kind":"OPERATION_SDPA_FWD","#99999:3":7,"OPERATION_SDPA_FWD_QDESC:15":0,"OPERATION_SDPA_FWD_SEQ_LEN_QDESC:15":1},{"kind":"OPERATIONGRAPH","OPS:15":2}]"##;

    #[test]
    fn unknown_attributes_do_not_hide_the_lengths_of_sequences() {
        let graph: Graph = serde_json::from_str(ATTENTION).unwrap();
        assert_eq!(sequence_lengths(&graph), BTreeMap::from([(2, 96)]));
    }
}

//! Adapts the memory of a captured execution to a smaller graph.

use std::collections::{BTreeMap, BTreeSet};

use cudnn_graph::{Graph, Node};
use cudnn_loader::cudnnBackendAttributeName_t as Name;
use cudnn_store::captures::ExecutionRecord;

/// Returns the execution for a smaller graph, with only its tensors.
///
/// If a dimension or stride has changed, offsets are meaningless. Ranges that start at the same address then still
/// share a buffer, and all others are separate. Alignments remain.
pub fn adapted(execution: &ExecutionRecord, original: &Graph, smaller: &Graph) -> ExecutionRecord {
    let (before, after) = (shapes(original), shapes(smaller));
    let mut execution = execution.clone();
    execution.tensors.retain(|tensor| after.contains_key(&tensor.uid));
    if execution.tensors.iter().all(|tensor| before.get(&tensor.uid) == after.get(&tensor.uid)) {
        return execution;
    }
    execution.workspace = None;
    let memory =
        |tensor: &cudnn_store::captures::Tensor| tensor.memory.as_ref().map(|memory| (memory.buffer, memory.offset));
    let starts: BTreeSet<_> = execution.tensors.iter().filter_map(memory).collect();
    let buffers: BTreeMap<_, usize> = starts.into_iter().zip(0..).collect();
    for memory in execution.tensors.iter_mut().filter_map(|tensor| tensor.memory.as_mut()) {
        memory.buffer = buffers.get(&(memory.buffer, memory.offset)).copied().unwrap_or_default();
        (memory.offset, memory.span) = (0, None);
    }
    execution
}

fn shapes(graph: &Graph) -> BTreeMap<i64, [&[i64]; 2]> {
    let is_in_memory = |node: &&Node| node.integer(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) != Some(1);
    let shape = |node| {
        let node: &Node = node;
        let names = [Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Name::CUDNN_ATTR_TENSOR_STRIDES];
        Some((node.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)?, names.map(|name| node.integers(name))))
    };
    graph.tensors().filter(is_in_memory).filter_map(shape).collect()
}

#[cfg(test)]
mod tests {
    use cudnn_store::captures::Record;

    use super::*;

    const GRAPH: &str = r#"[{"kind":"TENSOR","TENSOR_DIMENSIONS:3":[4,8],"TENSOR_STRIDES:3":[8,1],"TENSOR_UNIQUE_ID:3":1},{"kind":"TENSOR","TENSOR_DIMENSIONS:3":[4,8],"TENSOR_STRIDES:3":[8,1],"TENSOR_UNIQUE_ID:3":2},{"kind":"TENSOR","TENSOR_DIMENSIONS:3":[1],"TENSOR_STRIDES:3":[1],"TENSOR_UNIQUE_ID:3":3},{"kind":"OPERATIONGRAPH"}]"#;
    const EXECUTION: &str = r#"{"record":"execution","plan":0,"status":"SUCCESS","tensors":[{"uid":1,"memory":{"buffer":5,"offset":64,"span":64,"alignment":64}},{"uid":2,"memory":{"buffer":5,"offset":64,"span":64,"alignment":64}},{"uid":3,"memory":{"buffer":5,"offset":128,"span":2,"alignment":128}},{"uid":4}],"workspace":{"buffer":5,"offset":0,"alignment":64}}"#;

    fn places(execution: &ExecutionRecord) -> Vec<(i64, usize, u64, u64)> {
        let tensors = execution.tensors.iter();
        let place = |tensor: &cudnn_store::captures::Tensor| {
            let memory = tensor.memory.as_ref()?;
            Some((tensor.uid, memory.buffer, memory.offset, memory.alignment))
        };
        tensors.filter_map(place).collect()
    }

    #[test]
    fn offsets_are_dropped_if_tensors_become_smaller() {
        let Ok(Record::Execution(execution)) = serde_json::from_str(EXECUTION) else { panic!() };
        let graph: Graph = serde_json::from_str(GRAPH).unwrap();
        let same = adapted(&execution, &graph, &graph);
        assert_eq!(places(&same), [(1, 5, 64, 64), (2, 5, 64, 64), (3, 5, 128, 128)]);
        assert!(same.workspace.is_some() && same.tensors.len() == 3, "the graph has no tensor 4");
        let smaller = serde_json::from_str(&GRAPH.replace("[4,8]", "[2,8]")).unwrap();
        let smaller = adapted(&execution, &graph, &smaller);
        assert_eq!(places(&smaller), [(1, 0, 0, 64), (2, 0, 0, 64), (3, 1, 0, 128)]);
        assert_eq!(smaller.workspace, None);
        assert!(smaller.tensors.iter().all(|tensor| tensor.memory.as_ref().unwrap().span.is_none()));
        let fewer = serde_json::from_str(
            &GRAPH.replace(r#""TENSOR_UNIQUE_ID:3":3"#, r#""TENSOR_UNIQUE_ID:3":3,"TENSOR_IS_VIRTUAL:2":1"#),
        );
        assert_eq!(places(&adapted(&execution, &graph, &fewer.unwrap())), [(1, 5, 64, 64), (2, 5, 64, 64)]);
    }
}

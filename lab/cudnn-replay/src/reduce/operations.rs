//! Drops operations from the end and from the start, many at once at first.

use cudnn_capture_file::{Graph, Value};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::Candidate;
use super::edit::Edit;

pub(super) fn candidates(graph: &Graph) -> Vec<Candidate> {
    let edit = Edit::new(graph);
    let root = edit.nodes.len().saturating_sub(1);
    let operations = edit.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS);
    let mut candidates = Vec::new();
    let mut count = operations.len() / 2;
    while count > 0 {
        let kept = operations.len() - count;
        // One operation is dropped at any place, several only at the ends.
        let starts: Vec<usize> = if count == 1 { (0..=kept).rev().collect() } else { vec![kept, 0] };
        for start in starts {
            let mut edit = edit.clone();
            let is_kept = |(index, _): &(usize, &usize)| !(start..start + count).contains(index);
            let kept = operations.iter().enumerate().filter(is_kept).map(|(_, operation)| *operation).collect();
            edit.replace_value(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, Value::Nodes(kept));
            let change = format!("without the operations {} to {} of {}", start + 1, start + count, operations.len());
            candidates.extend(edit.finish().map(|graph| Candidate { graph, change }));
        }
        count /= 2;
    }
    candidates
}

//! Drops operations from the end and from the start, first many at once.

use cudnn_graph::Graph;
use cudnn_graph::edit::Edit;

use super::SmallerGraph;

pub(super) fn candidates(graph: &Graph) -> Vec<SmallerGraph> {
    let edit = Edit::new(graph);
    let operations = graph.operations();
    let mut candidates = Vec::new();
    let mut count = operations.len() / 2;
    while count > 0 {
        let kept = operations.len() - count;
        // Single operations are dropped at any position, and several only at the ends.
        let starts: Vec<usize> = if count == 1 { (0..=kept).rev().collect() } else { vec![kept, 0] };
        for start in starts {
            let mut edit = edit.clone();
            edit.keep_operations(|place| !(start..start + count).contains(&place));
            let change = format!("without the operations {} to {} of {}", start + 1, start + count, operations.len());
            candidates.extend(edit.finish().map(|graph| SmallerGraph { graph, change }));
        }
        count /= 2;
    }
    candidates
}

//! Chooses usual layouts: the last dimension innermost, or the channels innermost.

use cudnn_graph::Graph;
use cudnn_graph::edit::Edit;
use cudnn_graph::layout::{channels_last, packed};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::SmallerGraph;

pub(super) fn candidates(graph: &Graph) -> Vec<SmallerGraph> {
    let edit = Edit::new(graph);
    let layout_of = |name: &str, layout: fn(&[i64]) -> Vec<i64>, tensors: &[usize]| {
        let mut edit = edit.clone();
        for tensor in tensors {
            let dims = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
            edit.replace(*tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, layout(&dims));
        }
        let of = match tensors {
            [tensor] => {
                let uid = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID);
                format!("tensor {} is", uid.first().copied().unwrap_or(0))
            }
            _ => "all tensors are".to_owned(),
        };
        edit.finish().map(|graph| SmallerGraph { graph, change: format!("{of} {name}") })
    };
    let tensors = edit.tensors();
    let mut candidates = Vec::new();
    let groups = std::iter::once(tensors.as_slice()).chain(tensors.iter().map(std::slice::from_ref));
    for group in groups {
        // Replacing one usual layout by the other would never end.
        let is_usual = group.iter().all(|tensor| {
            let dims = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
            let strides = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_STRIDES);
            strides == packed(&dims) || strides == channels_last(&dims)
        });
        if !is_usual {
            candidates.extend(layout_of("packed", packed, group));
            candidates.extend(layout_of("channels-last", channels_last, group));
        }
    }
    candidates
}

//! Chooses usual layouts: the last dimension innermost, or the channels innermost.

use cudnn_capture_file::Graph;
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::Candidate;
use super::edit::Edit;

pub(super) fn candidates(graph: &Graph) -> Vec<Candidate> {
    let edit = Edit::new(graph);
    let layout_of = |name: &str, layout: fn(usize) -> Vec<usize>, tensors: &[usize]| {
        let mut edit = edit.clone();
        for tensor in tensors {
            let dims = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
            edit.replace(*tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, packed(&dims, &layout(dims.len())));
        }
        let of = match tensors {
            [tensor] => {
                let uid = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID);
                format!("tensor {} is", uid.first().copied().unwrap_or(0))
            }
            _ => "all tensors are".to_owned(),
        };
        edit.finish().map(|graph| Candidate { graph, change: format!("{of} {name}") })
    };
    let tensors = edit.tensors();
    let mut candidates = Vec::new();
    let groups = std::iter::once(tensors.as_slice()).chain(tensors.iter().map(std::slice::from_ref));
    for group in groups {
        // Usual layouts stay. Replacing one by the other would go on forever.
        let is_usual = group.iter().all(|tensor| {
            let dims = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
            let strides = edit.integers(*tensor, Name::CUDNN_ATTR_TENSOR_STRIDES);
            strides == packed(&dims, &row_major(dims.len())) || strides == packed(&dims, &channels_last(dims.len()))
        });
        if !is_usual {
            candidates.extend(layout_of("packed", row_major, group));
            candidates.extend(layout_of("channels-last", channels_last, group));
        }
    }
    candidates
}

/// Returns the dimensions from the innermost to the outermost.
fn row_major(rank: usize) -> Vec<usize> {
    (0..rank).rev().collect()
}

/// Like [`row_major`], but dimension 1 contains the channels and is the innermost one.
fn channels_last(rank: usize) -> Vec<usize> {
    if rank < 3 { row_major(rank) } else { std::iter::once(1).chain((2..rank).rev()).chain([0]).collect() }
}

/// Returns strides without gaps for dimensions in this order, innermost first.
pub(super) fn packed(dims: &[i64], order: &[usize]) -> Vec<i64> {
    let (mut strides, mut stride) = (vec![0; dims.len()], 1_i64);
    for dimension in order {
        if let (Some(place), Some(extent)) = (strides.get_mut(*dimension), dims.get(*dimension)) {
            *place = stride;
            stride = stride.saturating_mul(*extent);
        }
    }
    strides
}

/// Returns the order of the dimensions, innermost first. `None` if the tensor has gaps or overlaps itself.
pub(super) fn packed_order(dims: &[i64], strides: &[i64]) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..dims.len()).rev().collect();
    // Dimensions with one element may have any stride.
    order.sort_by_key(|dimension| {
        (strides.get(*dimension).copied().unwrap_or(0), dims.get(*dimension).copied().unwrap_or(0))
    });
    (packed(dims, &order) == strides).then_some(order)
}

//! Makes dimensions smaller.
//!
//! Equal extents probably depend on each other and change together: all extents with a value, or only in one dimension.
//! The outputs of convolutions are computed again, and other tensors with the same extents follow.

use std::collections::{BTreeMap, BTreeSet};

use cudnn_graph::Graph;
use cudnn_graph::edit::Edit;
use cudnn_graph::layout::{packed_order, strides_in};
use cudnn_graph::operation::convolution_attributes;
use cudnn_graph::shape::{axes, spatial};
use cudnn_loader::cudnnBackendAttributeName_t as Name;

use super::SmallerGraph;

pub(super) fn candidates(graph: &Graph) -> Vec<SmallerGraph> {
    let edit = Edit::new(graph);
    // Extents with a dimension, or `None` for all dimensions.
    let mut groups = BTreeSet::new();
    for tensor in edit.tensors() {
        for (place, extent) in edit.integers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS).into_iter().enumerate() {
            if extent > 1 {
                groups.insert((extent, Some(place)));
                groups.insert((extent, None));
            }
        }
    }
    let mut candidates = Vec::new();
    for (extent, place) in groups.into_iter().rev() {
        for smaller in smaller_extents(extent) {
            let mut changed = edit.clone();
            change_extents(&mut changed, place, extent, smaller);
            let at = place.map_or(String::new(), |place| format!(" of dimension {place}"));
            let change = format!("extent {extent}{at} is {smaller}");
            let finished = adjust_convolutions(changed, graph).finish();
            candidates.extend(finished.map(|graph| SmallerGraph { graph, change }));
        }
    }
    candidates
}

/// Returns about half of an extent, first with the same residue modulo 128 and 64, then 1.
fn smaller_extents(extent: i64) -> Vec<i64> {
    let half = extent / 2;
    let same_residue = |modulus: i64| extent - ((extent - half + modulus - 1) / modulus) * modulus;
    let mut smaller = vec![same_residue(128), same_residue(64), half, 1];
    smaller.dedup();
    smaller.retain(|smaller| (1..extent).contains(smaller));
    smaller
}

/// Changes equal extents of all tensors. Tensors without gaps keep this property.
fn change_extents(edit: &mut Edit, place: Option<usize>, extent: i64, smaller: i64) {
    for tensor in edit.tensors() {
        let mut dims = edit.integers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
        for (index, dim) in dims.iter_mut().enumerate() {
            if *dim == extent && place.is_none_or(|place| place == index) {
                *dim = smaller;
            }
        }
        set_dims(edit, tensor, dims);
    }
}

fn set_dims(edit: &mut Edit, tensor: usize, dims: Vec<i64>) {
    let former = edit.integers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    if former != dims {
        let strides = edit.integers(tensor, Name::CUDNN_ATTR_TENSOR_STRIDES);
        if let Some(order) = packed_order(&former, &strides) {
            edit.replace(tensor, Name::CUDNN_ATTR_TENSOR_STRIDES, strides_in(&order, &dims));
        }
        edit.replace(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
    }
}

/// Computes the outputs of convolutions again. Other tensors with the same extents follow.
pub(super) fn adjust_convolutions(mut edit: Edit, original: &Graph) -> Edit {
    let mut changes = BTreeMap::new();
    for operation in 0..edit.nodes.len() {
        let Some(attributes) = edit.nodes.get(operation).and_then(|node| convolution_attributes(node.kind)) else {
            continue;
        };
        let [Some(x), Some(w), Some(y), Some(convolution)] =
            attributes.map(|name| edit.children(operation, name).first().copied())
        else {
            continue;
        };
        let extents = |node| edit.integers(node, Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
        let former = |node: usize| original.nodes().get(node).map(|node| node.extents().to_vec());
        let (Some(former_w), Some(former_y)) = (former(w), former(y)) else { continue };
        let (image, filter, mut now) = (extents(x), extents(w), extents(y));
        let Some(axes) = edit.nodes.get(convolution).and_then(axes) else { continue };
        let tail = |extents: &[i64]| extents.get(extents.len().checked_sub(axes.len())?..).map(<[i64]>::to_vec);
        let output = tail(&image).zip(tail(&filter)).and_then(|(image, filter)| spatial(&image, &filter, &axes));
        let Some(output) = output else { continue };
        let start = now.len().saturating_sub(output.len());
        now.iter_mut().skip(start).zip(&output).for_each(|(extent, output)| *extent = *output);
        // The number of filters equals the number of output channels, except for groups.
        if former_w.first() == former_y.get(1)
            && let (Some(channels), Some(filters)) = (now.get_mut(1), filter.first())
        {
            *channels = *filters;
        }
        set_dims(&mut edit, y, now.clone());
        changes.insert(former_y, now);
    }
    for tensor in edit.tensors() {
        let former = original.nodes().get(tensor).map(|node| node.extents().to_vec()).unwrap_or_default();
        for (output, changed) in changes.iter().filter(|(output, _)| is_output_shape(&former, output)) {
            let follow = |(place, (dim, extent)): (usize, (&i64, &i64))| {
                // Dimension 0 contains the images.
                let follows = place > 0 && former.get(place) == output.get(place);
                if follows { *extent } else { *dim }
            };
            let now = edit
                .integers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS)
                .iter()
                .zip(changed)
                .enumerate()
                .map(follow)
                .collect();
            set_dims(&mut edit, tensor, now);
        }
    }
    edit
}

/// Returns whether a tensor has the shape of an output, or can be broadcast to it.
fn is_output_shape(dims: &[i64], output: &[i64]) -> bool {
    dims.len() == output.len() && dims.iter().zip(output).all(|(dim, extent)| dim == extent || *dim == 1)
}

#[cfg(test)]
mod tests {
    use super::smaller_extents;

    #[test]
    fn extents_are_halved_with_the_same_residues_first() {
        for (extent, smaller) in [
            (1000, &[488, 500, 1][..]),
            (200, &[72, 100, 1]),
            (136, &[8, 68, 1]),
            (130, &[2, 65, 1]),
            (128, &[64, 1]),
            (72, &[8, 36, 1]),
            (3, &[1]),
            (2, &[1]),
        ] {
            assert_eq!(smaller_extents(extent), smaller, "{extent}");
        }
    }
}

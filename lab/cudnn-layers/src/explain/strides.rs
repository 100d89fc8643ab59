//! Computes the strides of tensors without gaps.

/// Returns the strides of a row-major tensor.
pub(super) fn packed(extents: &[i64]) -> Vec<i64> {
    let order: Vec<usize> = (0..extents.len()).rev().collect();
    strides_in(&order, extents)
}

/// Returns the strides of a channels-last tensor.
pub(super) fn channels_last(extents: &[i64]) -> Vec<i64> {
    let order: Vec<usize> = [1].into_iter().chain((2..extents.len()).rev()).chain([0]).collect();
    strides_in(&order, extents)
}

/// Returns the strides of a tensor without gaps, with dimensions in this order in memory, innermost first.
pub(super) fn strides_in(order: &[usize], extents: &[i64]) -> Vec<i64> {
    let (mut strides, mut stride) = (vec![1; extents.len()], 1_i64);
    for dimension in order {
        if let (Some(to), Some(extent)) = (strides.get_mut(*dimension), extents.get(*dimension)) {
            *to = stride;
            stride = stride.saturating_mul(*extent);
        }
    }
    strides
}

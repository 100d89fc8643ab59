//! Computes the strides of tensors without gaps.

/// Returns the strides of a row-major tensor.
pub fn packed(extents: &[i64]) -> Vec<i64> {
    strides_in(&row_major(extents.len()), extents)
}

/// Returns the strides of a channels-last tensor, or of a row-major tensor if there are less than three dimensions.
pub fn channels_last(extents: &[i64]) -> Vec<i64> {
    let order: Vec<usize> = match extents.len() {
        rank @ 0..3 => row_major(rank),
        rank => [1].into_iter().chain((2..rank).rev()).chain([0]).collect(),
    };
    strides_in(&order, extents)
}

fn row_major(rank: usize) -> Vec<usize> {
    (0..rank).rev().collect()
}

/// Returns the strides of a tensor without gaps. `order` lists the dimensions in memory, innermost first.
pub fn strides_in(order: &[usize], extents: &[i64]) -> Vec<i64> {
    let (mut strides, mut stride) = (vec![1; extents.len()], 1_i64);
    for dimension in order {
        if let (Some(to), Some(extent)) = (strides.get_mut(*dimension), extents.get(*dimension)) {
            *to = stride;
            stride = stride.saturating_mul(*extent);
        }
    }
    strides
}

/// Returns the order of the dimensions in memory, innermost first.
pub fn order(extents: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut order = row_major(extents.len());
    // Dimensions with one element may have any stride.
    let at = |list: &[i64], dimension| list.get(dimension).copied().unwrap_or(0);
    order.sort_by_key(|dimension| (at(strides, *dimension), at(extents, *dimension)));
    order
}

/// Returns the order of the dimensions in memory, or `None` if the tensor has gaps or overlaps itself.
pub fn packed_order(extents: &[i64], strides: &[i64]) -> Option<Vec<usize>> {
    Some(order(extents, strides)).filter(|order| strides_in(order, extents) == strides)
}

/// Returns whether two elements certainly have the same address. Unusual layouts may overlap without being detected.
pub fn overlaps(extents: &[i64], strides: &[i64]) -> bool {
    if extents.len() != strides.len() || strides.iter().any(|stride| *stride < 0) {
        return false;
    }
    let long: Vec<(i64, i64)> =
        extents.iter().copied().zip(strides.iter().copied()).filter(|(extent, _)| *extent > 1).collect();
    long.iter().enumerate().any(|(index, (extent, stride))| {
        let equals = |(other, (_, longer)): (usize, &(i64, i64))| {
            other != index && *stride > 0 && longer % stride == 0 && longer / stride < *extent
        };
        *stride == 0 || long.iter().enumerate().any(equals)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certain_overlaps_are_found() {
        for (dims, strides, expected) in [
            (&[2, 3, 4][..], &[12, 4, 1][..], false),
            (&[2, 3, 4], &[1, 2, 6], false),
            (&[2, 3, 4], &[12, 3, 1], true),
            (&[2, 3, 4], &[0, 4, 1], true),
            (&[1, 3, 4], &[0, 4, 1], false),
            (&[4, 4], &[1, 1], true),
            // 0, 2, 4 and 3, 5, 7
            (&[3, 2], &[2, 3], false),
            (&[2, 2], &[-1, 1], false),
        ] {
            assert_eq!(overlaps(dims, strides), expected, "{dims:?} {strides:?}");
        }
    }
}

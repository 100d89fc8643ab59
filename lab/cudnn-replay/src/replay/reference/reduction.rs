//! Computes reductions along the dimensions that get the extent 1.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnReduceTensorOp_t as Op};

use super::super::tensor::{Array, Walk, broadcast_strides, dense_strides, maximum};
use super::context::{Context, Results};

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC)?;
    let parameters = context.graph.children(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    let op = parameters.first().and_then(|node| node.integer(Name::CUDNN_ATTR_REDUCTION_OPERATOR));
    let op = Op(op.ok_or("a reduction without an operator")? as _);
    // Near zero, rounding decides whether a value is excluded from the product.
    let distance = match op {
        Op::CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS => {
            context.uncertainty(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC)
        }
        _ => 0.0,
    };
    let (initial, add): (f64, fn(f64, f64) -> f64) = match op {
        Op::CUDNN_REDUCE_TENSOR_ADD | Op::CUDNN_REDUCE_TENSOR_AVG => (0.0, |sum, x| sum + x),
        Op::CUDNN_REDUCE_TENSOR_MUL => (1.0, |product, x| product * x),
        Op::CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS => (1.0, |product, x| if x == 0.0 { product } else { product * x }),
        Op::CUDNN_REDUCE_TENSOR_MIN => (f64::INFINITY, |min, x| -maximum(-min, -x)),
        Op::CUDNN_REDUCE_TENSOR_MAX => (f64::NEG_INFINITY, maximum),
        Op::CUDNN_REDUCE_TENSOR_AMAX => (0.0, |max, x| maximum(max, x.abs())),
        Op::CUDNN_REDUCE_TENSOR_NORM1 => (0.0, |sum, x| sum + x.abs()),
        Op::CUDNN_REDUCE_TENSOR_NORM2 => (0.0, |sum, x| sum + x * x),
        _ => return Err("a reduction with an unknown operator".to_owned()),
    };
    let stated = operation.integers(Name::CUDNN_ATTR_OPERATION_REDUCTION_DIMS);
    let is_stated = |axis: usize| stated.iter().any(|stated| usize::try_from(*stated) == Ok(axis));
    let mut extents = x.dims.iter().zip(&dims).enumerate().filter(|(_, (x, _))| **x > 1);
    if !stated.is_empty() && extents.any(|(axis, (_, y))| is_stated(axis) != (*y == 1)) {
        return Err("a reduction along other dimensions than those whose extent becomes 1".to_owned());
    }
    let mut y = fold(x, &dims, initial, |sum, value, _| {
        let is_undecided = distance > 0.0 && value.abs() <= distance;
        add(sum, if is_undecided { f64::NAN } else { value })
    })?;
    let count = x.values.len() as f64 / y.values.len().max(1) as f64;
    match op {
        Op::CUDNN_REDUCE_TENSOR_AVG => y.values.iter_mut().for_each(|sum| *sum /= count),
        Op::CUDNN_REDUCE_TENSOR_NORM2 => y.values.iter_mut().for_each(|sum| *sum = sum.sqrt()),
        _ => {}
    }
    Ok(vec![(uid, y)])
}

pub(super) fn sum_to(x: &Array, dims: &[usize]) -> Result<Array, String> {
    fold(x, dims, 0.0, |sum, value, _| sum + value)
}

/// Combines the values for each index of an array with these extents, in the order of their indices. Along an extent of
/// 1, all values have the same index. The function receives the result so far, a value, and the index.
pub(super) fn fold(
    x: &Array,
    dims: &[usize],
    initial: f64,
    function: impl Fn(f64, f64, usize) -> f64 + Sync,
) -> Result<Array, String> {
    let strides = broadcast_strides(dims, &x.dims)?;
    let mut kept = (Vec::new(), Vec::new());
    let mut combined = (Vec::new(), Vec::new());
    for ((extent, own), stride) in x.dims.iter().zip(dense_strides(&x.dims)).zip(strides) {
        let (extents, strides) = if stride == 0 { &mut combined } else { &mut kept };
        extents.push(*extent);
        strides.push(own);
    }
    let combined = Walk::new(&combined.0, [&combined.1]);
    let result = |index, [start]: [usize; 1]| {
        combined.clone().fold(initial, |result, [offset]| function(result, x.get(start + offset), index))
    };
    Ok(Array { dims: dims.to_vec(), values: Walk::new(&kept.0, [&kept.1]).values(result) })
}

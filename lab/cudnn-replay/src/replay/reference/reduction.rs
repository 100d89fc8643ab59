//! Reductions along the dimensions whose extent becomes 1.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnReduceTensorOp_t as Op};

use super::super::tensor::{Array, Walk, maximum};
use super::context::{Context, Results};

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC)?;
    let parameters = context.graph.children(operation, Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    let op = parameters.first().and_then(|node| node.integer(Name::CUDNN_ATTR_REDUCTION_OPERATOR));
    let op = Op(op.ok_or("a reduction without an operator")? as _);
    // Near zero, rounding decides whether a value is left out of the product.
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
    let mut y = Array::filled(&dims, initial);
    let strides = y.strides_in(&x.dims)?;
    for (value, [at]) in x.values.iter().zip(Walk::new(&x.dims, [&strides])) {
        let is_undecided = distance > 0.0 && value.abs() <= distance;
        y.update(at, |sum| add(sum, if is_undecided { f64::NAN } else { *value }));
    }
    let count = x.values.len() as f64 / y.values.len().max(1) as f64;
    match op {
        Op::CUDNN_REDUCE_TENSOR_AVG => y.values.iter_mut().for_each(|sum| *sum /= count),
        Op::CUDNN_REDUCE_TENSOR_NORM2 => y.values.iter_mut().for_each(|sum| *sum = sum.sqrt()),
        _ => {}
    }
    Ok(vec![(uid, y)])
}

/// Returns the sums along the dimensions with the extent 1 in `dims`.
pub(super) fn sum_to(x: &Array, dims: &[usize]) -> Result<Array, String> {
    let mut sums = Array::filled(dims, 0.0);
    let strides = sums.strides_in(&x.dims)?;
    for (value, [at]) in x.values.iter().zip(Walk::new(&x.dims, [&strides])) {
        sums.update(at, |sum| sum + value);
    }
    Ok(sums)
}

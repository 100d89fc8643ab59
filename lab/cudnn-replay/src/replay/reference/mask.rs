//! Computes the mask of a diagonal band, for causal attention and for attention in a window.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnPointwiseMode_t as Mode};

use super::super::tensor::{Array, Walk};
use super::context::{Context, Results};

/// Replaces the elements outside the band. With a left bound, the operation compares columns with rows, and otherwise
/// rows with columns. Sequence lengths move the diagonal to the last elements.
pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC)?;
    let mode = operation.integer(Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE);
    let compare: fn(&f64, &f64) -> bool = match mode.map(|mode| Mode(mode as _)) {
        Some(Mode::CUDNN_POINTWISE_CMP_GT) => f64::gt,
        Some(Mode::CUDNN_POINTWISE_CMP_GE) => f64::ge,
        Some(Mode::CUDNN_POINTWISE_CMP_LT) => f64::lt,
        Some(Mode::CUDNN_POINTWISE_CMP_LE) => f64::le,
        _ => return Err("a mask with an unknown comparison".to_owned()),
    };
    let [.., rows, columns] = &*dims else { return Err("a mask with fewer than two dimensions".to_owned()) };
    if dims != x.dims {
        return Err("a mask of tensors with contradictory extents".to_owned());
    }
    let zero = Array::filled(&[1], 0.0);
    let optional = |name| context.optional(operation, name).unwrap_or(&zero);
    let left = context.optional(operation, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC);
    let shift = left.unwrap_or(optional(Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC));
    let length_q = optional(Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC);
    let length_kv = optional(Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC);
    let other = context.input(operation, Name::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC)?;
    let strides =
        [shift.strides_in(&dims)?, length_q.strides_in(&dims)?, length_kv.strides_in(&dims)?, other.strides_in(&dims)?];
    let [shift_s, q_s, kv_s, other_s] = &strides;
    let value = |index: usize, [at_shift, at_q, at_kv, at_other]: [usize; 4]| {
        let column = (index % columns) as f64;
        let row = (index / columns % rows) as f64 + length_kv.get(at_kv) - length_q.get(at_q);
        let is_inside = match left {
            Some(left) => compare(&(column + left.get(at_shift)), &row),
            None => compare(&(row + shift.get(at_shift)), &column),
        };
        if is_inside { x.get(index) } else { other.get(at_other) }
    };
    let values = Walk::new(&dims, [shift_s, q_s, kv_s, other_s]).values(value);
    Ok(vec![(uid, Array { dims, values })])
}

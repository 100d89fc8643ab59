//! Operations that move values without a computation.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendReshapeMode_t as Mode};

use super::super::tensor::{Array, Walk, dense_strides};
use super::MAX_ELEMENTS;
use super::context::{Context, Results};

/// Views the memory with other extents and strides, or preserves the order of the elements.
pub(super) fn reshape(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC)?;
    let from = context.tensor(operation, Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC)?;
    let to = context.tensor(operation, Name::CUDNN_ATTR_OPERATION_RESHAPE_YDESC)?;
    if from.count() != to.count() {
        return Err("a reshape that changes the number of elements".to_owned());
    }
    let mode = operation.integer(Name::CUDNN_ATTR_OPERATION_RESHAPE_MODE).unwrap_or(0);
    if Mode(mode as _) == Mode::CUDNN_RESHAPE_LOGICAL {
        return Ok(vec![(to.uid, Array { dims: to.dims, values: x.values.clone() })]);
    }
    let end = from.offsets().chain(to.offsets()).max().map_or(0, |last| last + 1);
    if end > MAX_ELEMENTS {
        return Err("a reshape of a tensor with large gaps".to_owned());
    }
    let mut memory = Array::filled(&[end], f64::NAN);
    for (value, offset) in x.values.iter().zip(from.offsets()) {
        memory.update(offset, |_| *value);
    }
    let values = to.offsets().map(|offset| memory.get(offset)).collect();
    Ok(vec![(to.uid, Array { dims: to.dims, values })])
}

pub(super) fn transpose(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_TRANSPOSE_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_TRANSPOSE_YDESC)?;
    let own = dense_strides(&x.dims);
    let moved = |dimension: &i64| {
        let dimension = usize::try_from(*dimension).ok()?;
        Some((*x.dims.get(dimension)?, *own.get(dimension)?))
    };
    let permutation = operation.integers(Name::CUDNN_ATTR_OPERATION_TRANSPOSE_PERMUTATION);
    let moved: Option<Vec<(usize, usize)>> = permutation.iter().map(moved).collect();
    let (extents, strides): (Vec<usize>, Vec<usize>) = moved.unwrap_or_default().into_iter().unzip();
    if extents != dims || dims.len() != x.dims.len() {
        return Err("a transpose of tensors with contradictory extents".to_owned());
    }
    let values = Walk::new(&dims, [&strides]).values(|_, [at]| x.get(at));
    Ok(vec![(uid, Array { dims, values })])
}

pub(super) fn slice(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_SLICE_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_SLICE_YDESC)?;
    let starts = operation.integers(Name::CUDNN_ATTR_OPERATION_SLICE_START_INDICES);
    let steps = operation.integers(Name::CUDNN_ATTR_OPERATION_SLICE_STRIDES);
    let mut first = 0;
    let mut strides = Vec::new();
    for (dimension, ((extent, own), stride)) in dims.iter().zip(&x.dims).zip(dense_strides(&x.dims)).enumerate() {
        let start = usize::try_from(starts.get(dimension).copied().unwrap_or(0)).ok();
        let step = usize::try_from(steps.get(dimension).copied().unwrap_or(1)).ok();
        let inside = start.zip(step).filter(|(start, step)| {
            let last = extent.saturating_sub(1).checked_mul(*step).and_then(|last| last.checked_add(*start));
            last.is_some_and(|last| last < *own)
        });
        let (start, step) = inside.ok_or("a slice outside of the tensor")?;
        first += start * stride;
        // A single element has any step.
        strides.push(stride.saturating_mul(step));
    }
    if dims.len() != x.dims.len() {
        return Err("a slice of tensors with contradictory extents".to_owned());
    }
    let values = Walk::new(&dims, [&strides]).values(|_, [at]| x.get(first + at));
    Ok(vec![(uid, Array { dims, values })])
}

pub(super) fn concat(context: &Context<'_>, operation: &Node) -> Results {
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC)?;
    let axis = operation.integer(Name::CUDNN_ATTR_OPERATION_CONCAT_AXIS).unwrap_or(-1);
    let axis = usize::try_from(axis).ok().filter(|axis| *axis < dims.len()).ok_or("a concatenation without an axis")?;
    let strides = dense_strides(&dims);
    let stride = strides.get(axis).copied().unwrap_or(0);
    let mut y = Array::filled(&dims, f64::NAN);
    let mut start = 0;
    for uid in context.graph.inputs(operation) {
        let x = context.value(uid).ok_or("an input is unknown")?;
        let fits = x.dims.len() == dims.len()
            && x.dims.iter().zip(&dims).enumerate().all(|(at, (own, extent))| at == axis || own == extent);
        let extent = x
            .dims
            .get(axis)
            .copied()
            .filter(|_| fits)
            .ok_or("a concatenation of tensors with contradictory extents")?;
        for (value, [at]) in x.values.iter().zip(Walk::new(&x.dims, [&strides])) {
            y.update(start * stride + at, |_| *value);
        }
        start += extent;
    }
    match dims.get(axis) == Some(&start) {
        true => Ok(vec![(uid, y)]),
        false => Err("a concatenation of tensors with contradictory extents".to_owned()),
    }
}

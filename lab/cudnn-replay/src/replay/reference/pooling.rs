//! Computes maxima and averages of windows.

use cudnn_graph::{Node, Value};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnPaddingMode_t as Padding,
    cudnnResampleMode_t as Mode,
};
use rayon::prelude::*;

use super::super::tensor::{Array, Walk, dense_strides, maximum, positions};
use super::context::{Context, Results};

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC)?;
    let parameters = context.graph.children(operation, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC);
    let parameters = parameters.first().copied().ok_or("no parameters")?;
    if operation.float(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA).is_some_and(|beta| beta != 0.0) {
        return Err("a resampling that adds to the output".to_owned());
    }
    let alpha = operation.float(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA).unwrap_or(1.0);
    let mode = Mode(parameters.integer(Name::CUDNN_ATTR_RESAMPLE_MODE).unwrap_or(-1) as _);
    let padding = Padding(parameters.integer(Name::CUDNN_ATTR_RESAMPLE_PADDING_MODE).unwrap_or(0) as _);
    let is_max = mode == Mode::CUDNN_RESAMPLE_MAXPOOL;
    let is_average =
        mode == Mode::CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING || mode == Mode::CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
    if !is_max && !is_average || padding == Padding::CUDNN_EDGE_VAL_PAD {
        return Err("a resampling that interpolates, or repeats the border".to_owned());
    }
    let window = numbers(parameters, Name::CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)?;
    let steps = numbers(parameters, Name::CUDNN_ATTR_RESAMPLE_STRIDES)?;
    let before = numbers(parameters, Name::CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)?;
    let rank = dims.len();
    let fits = rank > 2 && x.dims.len() == rank && x.dims.get(..2) == dims.get(..2);
    if !fits || [&window, &steps, &before].iter().any(|numbers| numbers.len() != rank - 2) {
        return Err("a resampling of tensors with contradictory extents".to_owned());
    }
    let window_dims: Option<Vec<usize>> = window.iter().map(|extent| usize::try_from(*extent).ok()).collect();
    let window_dims = window_dims.ok_or("a window with a negative extent")?;
    let size = window_dims.iter().try_fold(1_usize, |size, extent| size.checked_mul(*extent));
    let size = size.ok_or("a window that is too large")?;
    let count: usize = dims.iter().product();
    context.spend((size as u64).checked_mul(count as u64))?;
    let x_strides = dense_strides(&x.dims);
    let (planes, spatial) = x_strides.split_at(2);
    let extents = x.dims.get(2..).unwrap_or_default();
    let value = |index| {
        let at = positions(index, &dims);
        let (plane, corner) = at.split_at(2);
        let base: usize = plane.iter().zip(planes).map(|(position, stride)| position * stride).sum();
        let (mut max, mut sum, mut inside) = (f64::NEG_INFINITY, 0.0, 0_usize);
        for [number] in Walk::new(&window_dims, [&dense_strides(&window_dims)]) {
            let mut place = Some(base);
            let within = positions(number, &window_dims);
            let axes = corner.iter().zip(&within).zip(steps.iter().zip(&before)).zip(extents.iter().zip(spatial));
            for (((corner, within), (step, before)), (extent, stride)) in axes {
                let position = i128::from(*step) * *corner as i128 - i128::from(*before) + *within as i128;
                let position = usize::try_from(position).ok().filter(|position| position < extent);
                place = place.zip(position).map(|(place, position)| place + position * stride);
            }
            if let Some(place) = place {
                inside += 1;
                sum += x.get(place);
                max = maximum(max, x.get(place));
            }
        }
        if padding == Padding::CUDNN_ZERO_PAD && inside < size {
            max = maximum(max, 0.0);
        }
        let divisor = if mode == Mode::CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING { inside } else { size };
        alpha * if is_max { max } else { sum / divisor as f64 }
    };
    let values = (0..count).into_par_iter().map(value).collect();
    Ok(vec![(uid, Array { dims, values })])
}

/// Returns integers, which programs also set as fractions.
fn numbers(node: &Node, name: Name) -> Result<Vec<i64>, String> {
    let attribute = node.attributes.iter().find(|attribute| attribute.name == name);
    match attribute.map(|attribute| (attribute.ty, &attribute.value)) {
        Some((Type::CUDNN_TYPE_FRACTION, Value::Integers(numbers))) => {
            let whole = |pair: &[i64]| match pair {
                [numerator, 1] => Some(*numerator),
                _ => None,
            };
            numbers.chunks(2).map(whole).collect::<Option<_>>().ok_or_else(|| "a resampling with fractions".to_owned())
        }
        Some((_, Value::Integers(numbers))) => Ok(numbers.clone()),
        _ => Err("a resampling without a window".to_owned()),
    }
}

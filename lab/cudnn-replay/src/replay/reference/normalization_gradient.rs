//! Computes the gradients of normalizations.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendNormMode_t as Mode};

use super::super::tensor::{Array, Walk};
use super::context::{Context, Results};
use super::normalization::unsupported;
use super::reduction::sum_to;

/// Computes the gradients from the statistics of the forward pass. RMS normalization has no mean.
///
/// With the normalized values `n` and `g = dy * scale`, the gradient is `inverse * (g - mean(g) - n * mean(g * n))`,
/// with means over the elements that share a statistic.
pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let mode = Mode(operation.integer(Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE).unwrap_or(-1) as _);
    let known = [Mode::CUDNN_LAYER_NORM, Mode::CUDNN_INSTANCE_NORM, Mode::CUDNN_BATCH_NORM, Mode::CUDNN_RMS_NORM];
    if !known.contains(&mode) {
        return Err(unsupported(mode));
    }
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_XDESC)?;
    let dy = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC)?;
    let scale = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC)?;
    let inverse = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC)?;
    let mean = context.optional(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC)?;
    if dims != x.dims || dims != dy.dims {
        return Err("a normalization of tensors with contradictory extents".to_owned());
    }
    let zero = Array::filled(&[1], 0.0);
    let center = mean.unwrap_or(&zero);
    let strides = [center.strides_in(&dims)?, inverse.strides_in(&dims)?, scale.strides_in(&dims)?];
    let [mean_s, inverse_s, scale_s] = &strides;
    let places = Walk::new(&dims, [mean_s, inverse_s, scale_s]);
    let array = |values: Vec<f64>| Array { dims: dims.clone(), values };
    let normalized = array(places.values(|index, [m, i, _]| (x.get(index) - center.get(m)) * inverse.get(i)));
    let scaled = array(places.values(|index, [_, _, s]| dy.get(index) * scale.get(s)));
    let product = |a: &Array, b: &Array| array(places.values(|index, _| a.get(index) * b.get(index)));
    let sums = sum_to(&scaled, &inverse.dims)?;
    let product_sums = sum_to(&product(&scaled, &normalized), &inverse.dims)?;
    let count = x.values.len() as f64 / inverse.values.len().max(1) as f64;
    let dx = places.values(|index, [_, i, _]| {
        let shift = if mean.is_some() { sums.get(i) / count } else { 0.0 };
        inverse.get(i) * (scaled.get(index) - shift - normalized.get(index) * product_sums.get(i) / count)
    });
    let mut results = vec![(uid, array(dx))];
    for (name, values) in [
        (Name::CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, &product(dy, &normalized)),
        (Name::CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, dy),
    ] {
        if operation.value(name).is_some() {
            let (uid, dims) = context.output(operation, name)?;
            results.push((uid, sum_to(values, &dims)?));
        }
    }
    Ok(results)
}

//! Normalizations over layers, instances and batches, and RMS normalization.

use cudnn_graph::Node;
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendNormFwdPhase_t as Phase, cudnnBackendNormMode_t as Mode,
};

use super::super::tensor::{Array, Walk};
use super::context::{Context, Results};
use super::reduction::fold;
use super::statistics::moving_averages;

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_XDESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_YDESC)?;
    let scale = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC)?;
    if dims != x.dims || scale.dims.len() != dims.len() {
        return Err("a normalization of tensors with contradictory extents".to_owned());
    }
    let bias = context.optional(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    let mode = Mode(operation.integer(Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE).unwrap_or(-1) as _);
    let phase = Phase(operation.integer(Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE).unwrap_or(-1) as _);
    let is_training = phase == Phase::CUDNN_NORM_FWD_TRAINING;
    let zero = Array::filled(&[1], 0.0);
    let mut results = Vec::new();
    let (mean, inverse) = if mode == Mode::CUDNN_BATCH_NORM && !is_training {
        let mean = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC)?;
        let inverse = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC)?;
        (mean.clone(), inverse.clone())
    } else {
        // The scale's dimensions are normalized. For instances, all other dimensions are normalized.
        let of_scale = x.dims.iter().zip(&scale.dims);
        let stat_dims: Vec<usize> = match mode {
            Mode::CUDNN_LAYER_NORM | Mode::CUDNN_RMS_NORM => {
                of_scale.map(|(extent, scale)| if extent == scale { 1 } else { *extent }).collect()
            }
            Mode::CUDNN_INSTANCE_NORM => {
                x.dims.iter().enumerate().map(|(at, extent)| if at < 2 { *extent } else { 1 }).collect()
            }
            Mode::CUDNN_BATCH_NORM => scale.dims.clone(),
            _ => return Err(unsupported(mode)),
        };
        let epsilon = context.input(operation, Name::CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)?.get(0);
        let mean = if mode == Mode::CUDNN_RMS_NORM { zero.clone() } else { mean_of(x, &zero, &stat_dims, 1)? };
        let variance = mean_of(x, &mean, &stat_dims, 2)?;
        let count = x.values.len() as f64 / variance.values.len().max(1) as f64;
        let share = Name::CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC;
        let means = [
            Name::CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
            Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
        ];
        let variances = [
            Name::CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
            Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
        ];
        results.extend(moving_averages(context, operation, share, [(means, &mean), (variances, &variance)], count)?);
        let inverse = inverse_deviation(variance, epsilon);
        if is_training {
            let outputs = [
                (Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean.clone()),
                (Name::CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse.clone()),
            ];
            results.extend(context.results(operation, outputs)?);
        }
        (mean, inverse)
    };
    let bias = bias.unwrap_or(&zero);
    let strides =
        [mean.strides_in(&dims)?, inverse.strides_in(&dims)?, scale.strides_in(&dims)?, bias.strides_in(&dims)?];
    let [mean_s, inverse_s, scale_s, bias_s] = &strides;
    let value =
        |index, [m, i, s, b]: [usize; 4]| (x.get(index) - mean.get(m)) * inverse.get(i) * scale.get(s) + bias.get(b);
    let values = Walk::new(&dims, [mean_s, inverse_s, scale_s, bias_s]).values(value);
    results.push((uid, Array { dims, values }));
    Ok(results)
}

pub(super) fn unsupported(mode: Mode) -> String {
    format!("the normalization mode {mode:?}")
}

pub(super) fn inverse_deviation(mut variance: Array, epsilon: f64) -> Array {
    variance.values.iter_mut().for_each(|variance| *variance = 1.0 / (*variance + epsilon).sqrt());
    variance
}

/// Returns the mean of a power of the distances from a center, for each index of `dims`.
pub(super) fn mean_of(x: &Array, center: &Array, dims: &[usize], power: i32) -> Result<Array, String> {
    let centers = Walk::new(dims, [&center.strides_in(dims)?]).values(|_, [at]| center.get(at));
    let center = |index| centers.get(index).copied().unwrap_or(f64::NAN);
    let mut mean = fold(x, dims, 0.0, |sum, value, index| sum + (value - center(index)).powi(power))?;
    let count = x.values.len() as f64 / mean.values.len().max(1) as f64;
    mean.values.iter_mut().for_each(|sum| *sum /= count);
    Ok(mean)
}

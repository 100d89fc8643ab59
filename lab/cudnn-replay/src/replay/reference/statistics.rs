//! Computes sums for batch normalization, and statistics from them.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBnFinalizeStatsMode_t as Mode};

use super::super::tensor::Array;
use super::context::{Context, Results};
use super::reduction::{fold, sum_to};

pub(super) fn sums(context: &Context<'_>, operation: &Node) -> Results {
    let x = context.input(operation, Name::CUDNN_ATTR_OPERATION_GENSTATS_XDESC)?;
    let (sum, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC)?;
    let (square_sum, square_dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC)?;
    let squares = fold(x, &square_dims, 0.0, |sum, value, _| sum + value * value)?;
    Ok(vec![(sum, sum_to(x, &dims)?), (square_sum, squares)])
}

/// Computes the mean, the inverse standard deviation, and the scale and bias that normalize the values.
pub(super) fn finalize(context: &Context<'_>, operation: &Node) -> Results {
    let mode = operation.integer(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE).unwrap_or(-1);
    if Mode(mode as _) != Mode::CUDNN_BN_FINALIZE_STATISTICS_TRAINING {
        return Err("statistics for inference".to_owned());
    }
    let input = |name| context.input(operation, name);
    let count = input(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC)?.get(0);
    let epsilon = input(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC)?.get(0);
    let scale = input(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC)?;
    let bias = input(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC)?;
    let sum = input(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC)?;
    let square_sum = input(Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC)?;
    if [scale, bias, square_sum].iter().any(|array| array.values.len() != sum.values.len()) {
        return Err("statistics of tensors with contradictory extents".to_owned());
    }
    let array = |values: Vec<f64>| Array { dims: sum.dims.clone(), values };
    let mean = array(sum.values.iter().map(|sum| sum / count).collect());
    let squares = square_sum.values.iter().zip(&mean.values);
    let variance = array(squares.map(|(sum, mean)| sum / count - mean * mean).collect());
    let inverse = array(variance.values.iter().map(|variance| 1.0 / (variance + epsilon).sqrt()).collect());
    let eq_scale = array(inverse.values.iter().zip(&scale.values).map(|(inverse, scale)| inverse * scale).collect());
    let means = mean.values.iter().zip(&eq_scale.values);
    let eq_bias = array(bias.values.iter().zip(means).map(|(bias, (mean, scale))| bias - mean * scale).collect());
    let share = Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC;
    let means = [
        Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC,
        Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
    ];
    let variances = [
        Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC,
        Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC,
    ];
    let mut results = moving_averages(context, operation, share, [(means, &mean), (variances, &variance)], count)?;
    let outputs = [
        (Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, mean),
        (Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, inverse),
        (Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, eq_scale),
        (Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, eq_bias),
    ];
    results.extend(context.results(operation, outputs)?);
    Ok(results)
}

/// Returns the moving averages of a mean and a variance of this number of values, if they are outputs. The names are the
/// attributes of the previous and the updated average.
pub(super) fn moving_averages(
    context: &Context<'_>,
    operation: &Node,
    share: Name,
    statistics: [([Name; 2], &Array); 2],
    count: f64,
) -> Results {
    let unbiased = if count > 1.0 { count / (count - 1.0) } else { 1.0 };
    let present = statistics.into_iter().zip([1.0, unbiased]);
    let present = present.filter(|(([_, updated], _), _)| operation.value(*updated).is_some());
    let average = |(([former, updated], new), factor): (([Name; 2], &Array), f64)| {
        let share = context.input(operation, share)?.get(0);
        let average = moving_average(context.input(operation, former)?, new, factor, share)?;
        Ok((context.output(operation, updated)?.0, average))
    };
    present.map(average).collect()
}

/// Moves the previous values by this share towards the new ones.
pub(super) fn moving_average(former: &Array, new: &Array, factor: f64, share: f64) -> Result<Array, String> {
    if former.values.len() != new.values.len() {
        return Err("statistics of tensors with contradictory extents".to_owned());
    }
    let values = former.values.iter().zip(&new.values);
    let values = values.map(|(former, new)| (1.0 - share) * former + share * factor * new).collect();
    Ok(Array { dims: new.dims.clone(), values })
}

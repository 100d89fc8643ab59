//! Computes inputs that depend on other inputs, such as the statistics for the gradient of a normalization.
//!
//! Random statistics would be meaningless, because gradients would explode and variances could be negative.

use std::collections::BTreeMap;

use cudnn_graph::{Graph, Node};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendNormMode_t as Mode,
};

use super::super::tensor::{Array, Tensor};
use super::context::{Context, Results};
use super::normalization::{inverse_deviation, mean_of};
use super::{MAX_ELEMENTS, attention};

/// The usual number that is added to a variance.
const EPSILON: f64 = 1e-5;

/// Returns better values for inputs by uid. `given` returns the values of all tensors, and is called only if necessary.
pub(crate) fn inputs(graph: &Graph, given: impl FnOnce() -> BTreeMap<i64, Array>) -> Vec<(i64, Array)> {
    let operations = graph.operations();
    let deriving: Vec<(&Node, Derive)> =
        operations.into_iter().filter_map(|operation| Some((operation, function(operation.kind)?))).collect();
    let count = graph.tensors().filter_map(|node| Tensor::new(node).ok()).map(|tensor| tensor.count());
    // The reference does not cover these operations in larger graphs.
    if deriving.is_empty() || count.fold(0, usize::saturating_add) > MAX_ELEMENTS {
        return Vec::new();
    }
    let context = Context::new(graph, given());
    let derived = deriving.into_iter().filter_map(|(operation, derive)| derive(&context, operation).ok()).flatten();
    // Only inputs are known before the operations.
    derived.filter(|(uid, _)| context.is_known(*uid)).collect()
}

type Derive = fn(&Context<'_>, &Node) -> Results;

fn function(kind: Kind) -> Option<Derive> {
    Some(match kind {
        Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR => statistics,
        Kind::CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR => sums,
        Kind::CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR => attention::forward_results,
        _ => return None,
    })
}

/// Returns the statistics of the values that are normalized. Computed values are unknown, and count as standardized.
fn statistics(context: &Context<'_>, operation: &Node) -> Results {
    let (_, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC)?;
    let mode = operation.integer(Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE).unwrap_or(-1);
    let x = context.optional(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
    let epsilon = context.optional(operation, Name::CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC);
    let epsilon = epsilon.map_or(EPSILON, |epsilon| epsilon.get(0));
    let zero = Array::filled(&[1], 0.0);
    let mean = match x.filter(|_| Mode(mode as _) != Mode::CUDNN_RMS_NORM) {
        Some(x) => mean_of(x, &zero, &dims, 1)?,
        None => Array::filled(&dims, 0.0),
    };
    let inverse = match x {
        Some(x) => inverse_deviation(mean_of(x, &mean, &dims, 2)?, epsilon),
        None => Array::filled(&dims, 1.0),
    };
    let outputs = [
        (Name::CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, inverse),
        (Name::CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean),
    ];
    context.results(operation, outputs)
}

/// Returns sums of squares for which the variance is not negative.
fn sums(context: &Context<'_>, operation: &Node) -> Results {
    let count = context.input(operation, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC)?.get(0);
    let sum = context.input(operation, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC)?;
    let squares = context.input(operation, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC)?;
    let (uid, dims) = context.output(operation, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC)?;
    let values = sum.values.iter().zip(&squares.values);
    let values = values.map(|(sum, random)| sum * sum / count + count * random.abs()).collect();
    Ok(vec![(uid, Array { dims, values })])
}

//! Computes the outputs of a graph on the CPU in double precision.
//!
//! Intermediate values have double precision, even if the tensors have smaller types. If a convolution or a matmul
//! needs too many multiplications, or the tensors are too large, only a sample of the outputs is computed.
//!
//! | module | purpose |
//! | --- | --- |
//! | `context` | the values of the tensors |
//! | `attributes` | the attributes that are understood |
//! | `rounding` | how far rounding may move a computed value |
//! | `attention` | scaled dot product attention, and the gradients |
//! | `contraction` | sums of products, which convolutions consist of |
//! | `convolution`, `matmul`, `pointwise`, `reduction`, `softmax` | the operations with these names |
//! | `derived` | inputs that follow from other inputs |
//! | `mask` | the mask of a diagonal band |
//! | `movement` | operations that move values: reshape, transpose, slice, concat |
//! | `normalization`, `normalization_gradient` | normalizations |
//! | `pooling` | maxima and averages of windows |
//! | `statistics` | sums for batch normalization |
//! | `sample` | single elements of the outputs |

mod attention;
mod attributes;
mod context;
mod contraction;
mod convolution;
pub(super) mod derived;
mod mask;
mod matmul;
mod movement;
mod normalization;
mod normalization_gradient;
mod pointwise;
mod pooling;
mod reduction;
mod rounding;
mod sample;
mod softmax;
mod statistics;

use std::collections::BTreeMap;

use cudnn_graph::{Graph, Node};
use cudnn_loader::cudnnBackendDescriptorType_t as Kind;

use super::tensor::{Array, Tensor};
use context::Context;

pub(super) const MAX_PRODUCTS: u64 = 1 << 31;
/// Maximum number of elements of all tensors. For larger graphs, only samples are computed.
const MAX_ELEMENTS: usize = 1 << 27;

/// The reason why vectorized, ragged and reordered tensors have no reference.
pub(super) const SPECIAL_LAYOUT: &str = "a tensor has a special layout";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) array: Array,
    /// The indices of the elements, if the values are a sample.
    sample: Option<Vec<usize>>,
}

impl Expected {
    pub(super) fn is_sampled(&self) -> bool {
        self.sample.is_some()
    }

    /// Returns the index in the tensor for an expected value.
    pub(super) fn index(&self, number: usize) -> usize {
        self.sample.as_ref().map_or(number, |indices| indices.get(number).copied().unwrap_or(number))
    }

    /// Returns the elements of a tensor in memory that correspond to the expected values.
    pub(super) fn select(&self, tensor: &Tensor, memory: &[u8]) -> Array {
        match &self.sample {
            None => tensor.read(memory),
            Some(indices) => Array {
                dims: self.array.dims.clone(),
                values: indices.iter().map(|index| tensor.element(memory, *index)).collect(),
            },
        }
    }
}

/// Returns the values of tensors by uid, computed with at most this number of multiplications. `given` returns all
/// values before the execution, and is called only if the tensors are small enough. `element` returns a single value.
pub(super) fn compute_within(
    products: u64,
    graph: &Graph,
    given: impl FnOnce() -> BTreeMap<i64, Array>,
    element: &dyn Fn(i64, usize) -> Option<f64>,
) -> Result<BTreeMap<i64, Expected>, String> {
    check(graph)?;
    let mut count = 0_usize;
    for node in graph.tensors() {
        let tensor = Tensor::new(node)?;
        if !tensor.is_plain {
            return Err(SPECIAL_LAYOUT.to_owned());
        }
        count = count.saturating_add(tensor.count());
    }
    let is_large = count > MAX_ELEMENTS;
    let mut context = Context::new(graph, if is_large { BTreeMap::new() } else { given() }).with_products(products);
    let left = if is_large { graph.operations() } else { evaluate_all(&mut context, graph.operations())? };
    let sampled = sample::compute(&context, &left, element)?;
    let whole = |(uid, array)| (uid, Expected { array, sample: None });
    let mut expected: BTreeMap<i64, Expected> = context.into_values().into_iter().map(whole).collect();
    expected.extend(sampled);
    Ok(expected)
}

/// Evaluates operations in the order in which their inputs become known. Returns the operations that need too many
/// multiplications, and their dependents.
fn evaluate_all<'a>(context: &mut Context<'_>, operations: Vec<&'a Node>) -> Result<Vec<&'a Node>, String> {
    let (mut pending, mut expensive) = (operations, Vec::new());
    while !pending.is_empty() {
        let before = pending.len();
        let mut waiting = Vec::new();
        for operation in pending {
            if !context.graph.inputs(operation).iter().all(|uid| context.is_known(*uid)) {
                waiting.push(operation);
            } else if sample::is_expensive(context, operation)? {
                expensive.push(operation);
            } else {
                evaluate(context, operation)?;
            }
        }
        pending = waiting;
        if pending.len() == before {
            if expensive.is_empty() {
                return Err("an operation reads a tensor that no operation writes".to_owned());
            }
            break;
        }
    }
    expensive.extend(pending);
    Ok(expensive)
}

/// Returns the values of a tensor that a nested operation writes.
fn evaluate_inside(
    context: &Context<'_>,
    operations: Vec<&Node>,
    input: (i64, Array),
) -> Result<BTreeMap<i64, Array>, String> {
    let read: Vec<i64> = operations.iter().flat_map(|operation| context.graph.inputs(operation)).collect();
    let mut inside = context.inside(&read, input);
    if !evaluate_all(&mut inside, operations)?.is_empty() {
        return Err("an operation inside of an attention is too large".to_owned());
    }
    Ok(inside.into_values())
}

type Evaluate = fn(&Context<'_>, &Node) -> context::Results;

fn function(kind: Kind) -> Option<Evaluate> {
    Some(match kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => convolution::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => matmul::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => pointwise::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => reduction::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR => normalization::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR => normalization_gradient::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR => statistics::sums,
        Kind::CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR => statistics::finalize,
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR => pooling::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR => movement::reshape,
        Kind::CUDNN_BACKEND_OPERATION_TRANSPOSE_DESCRIPTOR => movement::transpose,
        Kind::CUDNN_BACKEND_OPERATION_SLICE_DESCRIPTOR => movement::slice,
        Kind::CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR => movement::concat,
        Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR => softmax::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR => mask::evaluate,
        Kind::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR => attention::forward,
        Kind::CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR => attention::backward,
        _ => return None,
    })
}

/// Returns the function that computes an operation, or the name of an unsupported operation.
fn known(operation: &Node) -> Result<Evaluate, String> {
    function(operation.kind).ok_or_else(|| match operation.kind.name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "an unknown operation".to_owned(),
    })
}

/// Returns an error that names an unsupported operation or attribute.
fn check(graph: &Graph) -> Result<(), String> {
    operations(graph).try_for_each(|operation| known(operation).map(drop))?;
    attributes::check(graph)
}

fn operations(graph: &Graph) -> impl Iterator<Item = &Node> {
    graph
        .nodes()
        .iter()
        .filter(|node| node.kind.name().is_some_and(|name| name.to_string_lossy().contains("_OPERATION_")))
}

pub(super) fn is_known(graph: &Graph) -> bool {
    check(graph).is_ok()
}

fn evaluate(context: &mut Context<'_>, operation: &Node) -> Result<(), String> {
    let results = known(operation)?(context, operation)?;
    let is_computed = |uid: &i64| results.iter().any(|(computed, _)| computed == uid);
    if !context.graph.outputs(operation).iter().all(is_computed) {
        return Err("an output of an operation is not computed".to_owned());
    }
    for (uid, array) in results {
        context.insert(uid, array);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

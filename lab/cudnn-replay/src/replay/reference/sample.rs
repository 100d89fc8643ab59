//! Computes single elements of outputs if computing all would take too long.

use std::collections::BTreeMap;

use cudnn_graph::Node;
use cudnn_graph::operation::convolution_attributes;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use super::super::data::random;
use super::super::tensor::{Array, Tensor, dense_strides};
use super::context::Context;
use super::{Expected, convolution, matmul, pointwise};

const MAX_SAMPLE: usize = 1024;
const MIN_SAMPLE: usize = 16;
/// Maximum number of operations between an output and a known tensor.
const MAX_DEPTH: usize = 64;

/// Returns whether the whole result of an operation would need too many multiplications.
pub(super) fn is_expensive(context: &Context<'_>, operation: &Node) -> Result<bool, String> {
    let products = match operation.kind {
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => matmul::products(context, operation)?,
        kind if is_convolution(kind) => convolution::products(context, operation)?,
        _ => return Ok(false),
    };
    Ok(!context.can_spend(products))
}

/// Returns samples of the outputs of these operations. `read` returns an element of a tensor before the execution.
pub(super) fn compute(
    context: &Context<'_>,
    operations: &[&Node],
    read: &Read<'_>,
) -> Result<BTreeMap<i64, Expected>, String> {
    let mut writers = BTreeMap::new();
    for operation in operations {
        writers.extend(context.graph.outputs(operation).into_iter().map(|uid| (uid, *operation)));
    }
    let mut samples = Vec::new();
    for node in context.graph.tensors() {
        let is_output = |uid| writers.contains_key(&uid) && node.integer(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) != Some(1);
        if node.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).is_some_and(is_output) {
            let tensor = Tensor::new(node)?;
            samples.push((tensor.uid, indices(&tensor.dims, tensor.uid), Vec::new()));
        }
    }
    let puller = Puller { context, writers: &writers, read };
    'elements: for number in 0..MAX_SAMPLE {
        for (uid, indices, values) in &mut samples {
            let Some(index) = indices.get(number) else { continue };
            match puller.element(*uid, *index, 0) {
                Ok(value) => values.push(value),
                // No multiplications are left.
                Err(_) if number >= MIN_SAMPLE && !context.can_spend(Some(1)) => break 'elements,
                Err(reason) => return Err(reason),
            }
        }
    }
    let expected = |(uid, mut indices, values): (i64, Vec<usize>, Vec<f64>)| {
        indices.truncate(values.len());
        (uid, Expected { array: Array { dims: vec![values.len()], values }, sample: Some(indices) })
    };
    Ok(samples.into_iter().map(expected).collect())
}

/// Returns the indices of the corners, and pseudo-random indices.
fn indices(dims: &[usize], seed: i64) -> Vec<usize> {
    let count: usize = dims.iter().product();
    let ends: Vec<usize> =
        dims.iter().zip(dense_strides(dims)).map(|(extent, stride)| extent.saturating_sub(1) * stride).collect();
    let corners = (0..1_usize << ends.len().min(5)).map(|corner| {
        let is_set = |(dimension, end): (usize, &usize)| if corner >> dimension.min(4) & 1 == 1 { *end } else { 0 };
        ends.iter().enumerate().map(is_set).sum()
    });
    let mut next = random(seed.cast_unsigned());
    let inner = std::iter::repeat_with(|| (next() % count.max(1) as u64) as usize);
    corners.chain(inner).take(if count == 0 { 0 } else { MAX_SAMPLE }).collect()
}

fn is_convolution(kind: Kind) -> bool {
    convolution_attributes(kind).is_some()
}

type Read<'a> = dyn Fn(i64, usize) -> Option<f64> + 'a;

struct Puller<'a> {
    context: &'a Context<'a>,
    read: &'a Read<'a>,
    writers: &'a BTreeMap<i64, &'a Node>,
}

impl Puller<'_> {
    fn element(&self, uid: i64, index: usize, depth: usize) -> Result<f64, String> {
        if let Some(array) = self.context.value(uid) {
            return Ok(array.get(index));
        }
        let Some(operation) = self.writers.get(&uid).copied().filter(|_| depth < MAX_DEPTH) else {
            let is_input = !self.writers.contains_key(&uid);
            let value = if is_input { (self.read)(uid, index) } else { None };
            return value.ok_or_else(|| "a value is unknown".to_owned());
        };
        let pull = &|uid, index| self.element(uid, index, depth + 1);
        match operation.kind {
            Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => {
                pointwise::element(self.context, operation, index, pull)
            }
            Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => matmul::element(self.context, operation, index, pull),
            kind if is_convolution(kind) => convolution::element(self.context, operation, index, pull),
            _ => Err(
                "it is too large, and only convolutions, matmuls and pointwise operations can be computed for a sample"
                    .to_owned(),
            ),
        }
    }
}

//! Compares the results of engines on the CPU.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use cudnn_loader::cudnnDataType_t as DataType;

use super::super::accuracy::{self, Worst};
use super::super::element::{self, precision};
use super::super::execution::{Prepared, describe};
use super::super::tensor::{Array, Tensor};
use super::preparation::Reference;

/// The error that is allowed, in units of the type's precision, and of the precision in which engines may compute.
const ALLOWED: f64 = 4.0;
/// The maximum number of elements of an output to compare with those of another engine. Of larger outputs, a part with
/// equal distances is compared.
const MAX_COMPARED: usize = 1 << 22;

/// The bytes of the buffers after an execution. Those of buffers that did not change are empty.
pub(super) type After = Arc<Vec<Vec<u8>>>;

/// An error, relative to what is allowed for engines that compute in the precision of the outputs, and for others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RelativeError {
    pub(super) strict: f64,
    pub(super) coarse: f64,
    /// The element in words.
    pub(super) element: Option<String>,
}

/// What the CPU found out about a result.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// The difference from the first result.
    pub(super) difference: RelativeError,
    pub(super) damage: Option<String>,
}

/// A thread that compares a result with the first one.
pub(super) struct Judge(Option<JoinHandle<Comparison>>);

impl Judge {
    pub(super) fn start(inputs: &Arc<Prepared>, first: &After, after: &After) -> Self {
        let (inputs, first, after) = (Arc::clone(inputs), Arc::clone(first), Arc::clone(after));
        Judge(Builder::new().spawn(move || compare(&inputs, &first, &after)).ok())
    }

    /// Waits for the thread.
    pub(super) fn finish(self) -> Comparison {
        let stopped = || Comparison {
            difference: RelativeError { strict: f64::MAX, coarse: f64::MAX, element: None },
            damage: None,
        };
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_else(stopped)
    }
}

fn compare(inputs: &Prepared, first: &After, after: &After) -> Comparison {
    let mut comparison = Comparison::default();
    let damage = |(buffer, bytes): (usize, &Vec<u8>)| inputs.memory.damage(buffer, bytes);
    comparison.damage = after.iter().enumerate().find_map(damage);
    if Arc::ptr_eq(first, after) {
        return comparison;
    }
    let places = inputs.outputs(after).zip(inputs.outputs(first));
    for ((place, bytes), (_, expected)) in places {
        let tensor = &place.tensor;
        if !tensor.is_plain || !element::is_readable(tensor.ty) {
            let differs = !tensor.has_equal_elements(bytes, expected);
            let error = if differs { f64::MAX } else { 0.0 };
            let text = format!("tensor {} differs from the first engine's", tensor.uid);
            comparison.difference.include(error, error, || text);
            continue;
        }
        let step = tensor.count().div_ceil(MAX_COMPARED).max(1);
        let (values, expected) = (read(tensor, bytes, step), read(tensor, expected, step));
        if let Ok(worst) = accuracy::worst(tensor.ty, &values, &expected) {
            comparison.difference.include_worst(tensor, Worst { index: worst.index * step, ..worst });
        }
    }
    comparison
}

/// Returns every element of a tensor whose index is a multiple of `step`.
fn read(tensor: &Tensor, bytes: &[u8], step: usize) -> Array {
    let size = element::size(tensor.ty).unwrap_or(1);
    let value = |offset: usize| element::decode(tensor.ty, bytes.get(offset * size..).unwrap_or_default());
    let values: Vec<f64> = tensor.offsets().step_by(step).map(value).collect();
    Array { dims: vec![values.len()], values }
}

/// Returns the error of a result. `None` if there is no reference.
pub(super) fn error(inputs: &Prepared, reference: &Reference, after: &After) -> Option<RelativeError> {
    let (errors, _) = inputs.errors_from(reference.as_ref().ok()?, after);
    let mut relative = RelativeError::default();
    for (uid, worst) in &errors {
        if let Some(place) = inputs.memory.places.iter().find(|place| place.tensor.uid == *uid) {
            relative.include_worst(&place.tensor, *worst);
        }
    }
    (!errors.is_empty()).then_some(relative)
}

impl RelativeError {
    fn include_worst(&mut self, tensor: &Tensor, worst: Worst) {
        let strict = worst.error / ALLOWED;
        self.include(strict, strict * precision(tensor.ty) / coarse_precision(tensor.ty), || {
            describe(tensor.uid, &worst)
        });
    }

    fn include(&mut self, strict: f64, coarse: f64, element: impl FnOnce() -> String) {
        if strict > self.strict {
            *self = RelativeError { strict, coarse, element: Some(element()) };
        }
    }
}

/// Returns the precision of engines that round inputs or sums to smaller types: TF32 for `float`, and a quarter of the
/// precision of smaller types.
fn coarse_precision(ty: DataType) -> f64 {
    match ty {
        DataType::CUDNN_DATA_FLOAT | DataType::CUDNN_DATA_DOUBLE => precision(DataType::CUDNN_DATA_HALF),
        ty => 4.0 * precision(ty),
    }
}

//! Compares the results of engines on the CPU.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use cudnn_loader::cudnnDataType_t as DataType;

use super::super::accuracy::{self, Worst};
use super::super::element::{self, precision};
use super::super::prepared::{Prepared, describe};
use super::super::tensor::{Array, Tensor};
use super::preparation::Reference;

/// The allowed error in units of the type's precision, and of the precision in which engines may compute.
const ALLOWED: f64 = 4.0;
/// The maximum number of elements of an output to compare with another engine's. Larger outputs are sampled.
const MAX_COMPARED: usize = 1 << 22;

/// The bytes of the buffers after an execution, or empty ones for unchanged buffers.
pub(super) type After = Arc<Vec<Vec<u8>>>;

/// An error relative to the tolerances for engines that compute in the precision of the outputs, and for others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RelativeError {
    pub(super) strict: f64,
    pub(super) coarse: f64,
    /// A description of the element with the largest strict error.
    pub(super) element: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    pub(super) difference: RelativeError,
    pub(super) damage: Option<String>,
}

pub(super) enum Judge {
    Thread(JoinHandle<Comparison>),
    Done(Comparison),
}

impl Judge {
    /// Starts a thread with this builder, or compares directly if that fails.
    pub(super) fn start(thread: Builder, inputs: &Arc<Prepared>, first: &After, after: &After) -> Self {
        let ours = (Arc::clone(inputs), Arc::clone(first), Arc::clone(after));
        match thread.spawn(move || compare(&ours.0, &ours.1, &ours.2)) {
            Ok(thread) => Judge::Thread(thread),
            Err(_) => Judge::Done(compare(inputs, first, after)),
        }
    }

    pub(super) fn finish(self) -> Comparison {
        let stopped = |_| {
            let element = Some("its results cannot be compared".to_owned());
            Comparison { difference: RelativeError { strict: f64::MAX, coarse: f64::MAX, element }, damage: None }
        };
        match self {
            Judge::Thread(thread) => thread.join().unwrap_or_else(stopped),
            Judge::Done(comparison) => comparison,
        }
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

/// Returns the elements of a tensor with an index that is a multiple of `step`.
fn read(tensor: &Tensor, bytes: &[u8], step: usize) -> Array {
    let size = element::size(tensor.ty).unwrap_or(1);
    let value = |offset: usize| element::decode(tensor.ty, bytes.get(offset * size..).unwrap_or_default());
    let values: Vec<f64> = tensor.offsets().step_by(step).map(value).collect();
    Array { dims: vec![values.len()], values }
}

/// Returns the error of a result, if there is a reference.
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
            (self.strict, self.element) = (strict, Some(element()));
        }
        self.coarse = self.coarse.max(coarse);
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

#[cfg(test)]
pub(super) mod tests {
    use super::super::super::request::{DataSet, Request};
    use super::*;

    pub(in super::super) fn inputs(ty: DataType) -> (Arc<Prepared>, Reference) {
        let tensor = |uid| {
            format!(
                r#"{{"kind":"TENSOR","TENSOR_UNIQUE_ID:3":{uid},"TENSOR_DATA_TYPE:1":{},"TENSOR_DIMENSIONS:3":[8],"TENSOR_STRIDES:3":[1]}}"#,
                ty.0
            )
        };
        let graph = format!(
            r#"[{},{},{{"kind":"POINTWISE","POINTWISE_MODE:14":100}},{{"kind":"OPERATION_POINTWISE",
            "OPERATION_POINTWISE_PW_DESCRIPTOR:15":2,"OPERATION_POINTWISE_XDESC:15":0,"OPERATION_POINTWISE_YDESC:15":1}},
            {{"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":3}}]"#,
            tensor(1),
            tensor(2)
        );
        let request = Request::new(serde_json::from_str(&graph).unwrap());
        let prepared = Prepared::without_reference(&request, DataSet::Normal).unwrap();
        let reference = prepared.reference(&request.graph, 1 << 20);
        (Arc::new(prepared), reference)
    }

    /// Returns the bytes after an execution that adds these numbers to the outputs.
    pub(in super::super) fn after(inputs: &Prepared, reference: &Reference, add: &[f64]) -> After {
        let mut memory = inputs.memory.clone();
        let place = memory.places.iter().find(|place| place.tensor.uid == 2).unwrap().clone();
        let expected = reference.as_ref().unwrap()[&2].array.clone();
        let added = |index: u64| add.get(index as usize).copied().unwrap_or(0.0);
        memory.fill(&place, |index| expected.get(index as usize) + added(index));
        Arc::new(memory.buffers.into_iter().map(|buffer| buffer.bytes).collect())
    }

    #[test]
    fn errors_are_relative_to_what_is_allowed() {
        for (ty, precision, is_fine_if_coarse) in
            [(DataType::CUDNN_DATA_FLOAT, 1e-7, true), (DataType::CUDNN_DATA_HALF, 1e-3, false)]
        {
            let (inputs, reference) = inputs(ty);
            let right = after(&inputs, &reference, &[]);
            let of = |add: &[f64]| {
                let after = after(&inputs, &reference, add);
                let comparison = Judge::start(Builder::new(), &inputs, &right, &after).finish();
                assert_eq!(comparison.damage, None);
                (error(&inputs, &reference, &after).unwrap(), comparison.difference)
            };
            assert!(of(&[]).0.strict <= 0.25 && of(&[]).1 == RelativeError::default());
            let (small, difference) = of(&[0.0, 2.0 * precision]);
            assert!(small.strict > 0.1 && small.strict <= 1.0 && difference.strict <= 1.0, "{small:?} {difference:?}");
            let (large, difference) = of(&[0.0, 0.0, 100.0 * precision]);
            assert!(large.strict > 1.0 && difference.strict > 1.0, "{large:?}");
            assert_eq!(large.coarse <= 1.0, is_fine_if_coarse, "{large:?}");
            assert!(large.element.unwrap().starts_with("element 2 of tensor 2 is "));
        }
    }

    #[test]
    fn damage_is_found_in_equal_results() {
        let (inputs, reference) = inputs(DataType::CUDNN_DATA_HALF);
        let mut damaged = after(&inputs, &reference, &[]).to_vec();
        let place = inputs.memory.places.iter().find(|place| place.tensor.uid == 2).unwrap();
        damaged[place.buffer][place.offset + 16] = 0;
        let damaged = Arc::new(damaged);
        // No machine has enough memory for the stack of the second thread.
        for thread in [Builder::new(), Builder::new().stack_size(1 << 62)] {
            let damage = Judge::start(thread, &inputs, &damaged, &damaged).finish().damage;
            assert!(damage.unwrap().contains("0 bytes after the end of tensor 2"));
        }
    }

    #[test]
    fn the_largest_errors_of_all_outputs_count() {
        let mut error = RelativeError::default();
        for (strict, coarse) in [(8.0, 0.5), (4.0, 2.0), (1.0, 1.0)] {
            error.include(strict, coarse, || format!("{strict}"));
        }
        assert_eq!(error, RelativeError { strict: 8.0, coarse: 2.0, element: Some("8".to_owned()) });
    }

    #[test]
    fn a_part_of_large_outputs_is_compared() {
        let (inputs, _) = inputs(DataType::CUDNN_DATA_HALF);
        let tensor = &inputs.memory.places[0].tensor;
        let bytes: Vec<u8> = (0..8_u8).flat_map(|index| half::f16::from_f32(f32::from(index)).to_le_bytes()).collect();
        assert_eq!(read(tensor, &bytes, 3).values, [0.0, 3.0, 6.0]);
    }
}

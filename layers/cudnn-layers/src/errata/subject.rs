//! The plan that rules are compared with.

use cudnn_sys::types::cudnnBackendNumericalNote_t as NumericalNote;

use crate::cudnn::Cudnn;
use crate::engine;
use crate::shadow::Operation;
use crate::shadow::elements::Raw;

/// A plan that is about to be finalized.
pub(super) struct Subject<'a> {
    pub(super) operations: Vec<OperationFacts>,
    pub(super) choice: Option<&'a Choice>,
}

/// The engine that the program has chosen, as far as cuDNN reports it.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) engine: Option<i64>,
    pub(super) numerical_notes: Vec<NumericalNote>,
    pub(super) knobs: Vec<(u32, i64)>,
}

impl Choice {
    /// Reads the engine and the knobs of a configuration.
    ///
    /// # Safety
    /// The configuration is finalized and live.
    pub(super) unsafe fn read(cudnn: &Cudnn, configuration: Raw) -> Self {
        // SAFETY: guaranteed by the caller.
        let engine = unsafe {
            engine::with_engine(cudnn, configuration, |engine| {
                Ok((engine::index(engine).ok(), engine::numerical_notes(engine).unwrap_or_default()))
            })
        };
        // SAFETY: guaranteed by the caller.
        let knobs = unsafe { engine::knobs(cudnn, configuration) }.unwrap_or_default();
        let (engine, numerical_notes) = engine.unwrap_or_default();
        Choice { engine, numerical_notes, knobs }
    }
}

/// An operation of the graph, with names as in the label of a trace.
pub(super) struct OperationFacts {
    pub(super) name: String,
    pub(super) compute_type: Option<String>,
    pub(super) tensors: Vec<TensorFacts>,
}

/// A tensor of an operation.
pub(super) struct TensorFacts {
    pub(super) role: String,
    pub(super) data_type: String,
    pub(super) extents: Vec<i64>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(operations: Vec<Operation<'_>>, choice: Option<&'a Choice>) -> Self {
        let facts = |operation: &Operation<'_>| OperationFacts {
            name: operation.name.clone(),
            compute_type: operation.compute_type(),
            tensors: operation
                .tensors()
                .map(|named| TensorFacts {
                    role: named.role.clone(),
                    data_type: named.data_type(),
                    extents: named.extents(),
                })
                .collect(),
        };
        Subject { operations: operations.iter().map(facts).collect(), choice }
    }
}

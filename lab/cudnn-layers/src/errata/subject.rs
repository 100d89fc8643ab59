//! The plan that rules are compared with.

use crate::engine::Choice;
use crate::shadow::Operation;

/// A plan that is about to be finalized.
pub(super) struct Subject<'a> {
    pub(super) operations: Vec<OperationFacts>,
    pub(super) choice: Option<&'a Choice>,
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

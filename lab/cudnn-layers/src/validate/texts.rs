//! Names descriptors, tensors and shapes in messages.

use std::fmt::{Display, Formatter};

use cudnn_graph::{Operand, Operation};

use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name};

pub(super) fn kind_name(kind: Kind) -> String {
    kind.name().map_or_else(|| format!("descriptor of kind {}", kind.0), |name| name.to_string_lossy().into_owned())
}

pub(super) fn attribute(name: Name) -> String {
    name.name().map_or_else(|| format!("attribute {}", name.0), |name| name.to_string_lossy().into_owned())
}

const ID: Name = Name::CUDNN_ATTR_TENSOR_UNIQUE_ID;

/// Names a descriptor that is not part of a graph. Tensors have an id.
pub(super) fn subject(kind: Kind, id: Option<i64>) -> String {
    id.map_or_else(|| kind_name(kind), |id| format!("tensor {id}"))
}

/// Names a descriptor that is not part of a graph.
pub(super) fn descriptor(content: &Content) -> String {
    subject(content.kind, content.number(ID))
}

/// Formats a tensor of an operation as `output y (tensor 4)`.
pub(super) fn tensor(operation: &Operation<'_>, operand: &Operand<'_>) -> String {
    let is_output = operation.outputs.iter().any(|output| output.attribute == operand.attribute);
    let side = if is_output { "output" } else { "input" };
    match operand.tensor.uid() {
        Some(id) => format!("{side} {} (tensor {id})", operand.role),
        None => format!("{side} {}", operand.role),
    }
}

#[derive(Clone, Copy)]
pub(super) struct OperationPosition<'a> {
    pub(super) operation: &'a Operation<'a>,
    /// The number of the operation, from 1, and the number of operations. `None` if the graph is unknown.
    pub(super) number: Option<(usize, usize)>,
}

/// Returns the positions of the operations of a graph.
pub(super) fn positions<'a>(operations: &'a [Operation<'a>]) -> impl Iterator<Item = OperationPosition<'a>> {
    let count = operations.len();
    (1..).zip(operations).map(move |(index, operation)| OperationPosition { operation, number: Some((index, count)) })
}

impl Display for OperationPosition<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.operation.name)?;
        match self.number {
            Some((number, count)) => write!(f, ", operation {number} of {count}"),
            None => Ok(()),
        }
    }
}

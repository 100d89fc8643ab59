//! Draws a graph as text, with a line for each operation.

use std::fmt::Write;

use cudnn_graph::layout::packed;
use cudnn_graph::{Graph, Operand, Operation, label};

const MAX_OPERATIONS: usize = 64;

/// Returns a line for each operation, such as
/// `1. conv_fwd  x=1 [4,16,14,14] half, w=2 [32,16,3,3] half -> y=3 [4,32,14,14] half virtual; compute float`.
pub(super) fn draw(graph: &Graph) -> String {
    let operations = Operation::nested_in(graph);
    let mut text = String::new();
    for (number, operation) in operations.iter().enumerate().take(MAX_OPERATIONS) {
        let _ = write!(text, "  {}. {}", number + 1, operation.name);
        for (separator, tensors) in [("  ", &operation.inputs), (" -> ", &operation.outputs)] {
            let shown: Vec<String> = tensors.iter().map(tensor).collect();
            if !shown.is_empty() {
                let _ = write!(text, "{separator}{}", shown.join(", "));
            }
        }
        if let Some(compute_type) = operation.compute_type() {
            let _ = write!(text, "; compute {compute_type}");
        }
        text.push_str(&label::parameters(operation));
        text.push('\n');
    }
    if let Some(more) = operations.len().checked_sub(MAX_OPERATIONS + 1) {
        let _ = writeln!(text, "  and {} more operations", more + 1);
    }
    text
}

/// Formats a tensor as `x=1 [4,16,14,14] half nhwc`. Shows strides of unusual layouts.
fn tensor(Operand { role, tensor, .. }: &Operand<'_>) -> String {
    let extents = tensor.extents();
    let uid = tensor.uid().map_or_else(|| "no id".to_owned(), |uid| uid.to_string());
    let mut text = format!("{role}={uid} {} {}", label::numbers(extents), tensor.type_name());
    if tensor.is_channels_last() == Some(true) {
        text.push_str(" nhwc");
    } else if tensor.strides() != packed(extents) {
        let _ = write!(text, " strides {}", label::numbers(tensor.strides()));
    }
    for (is_set, word) in [(tensor.is_virtual(), " virtual"), (tensor.is_by_value(), " by value")] {
        if is_set {
            text.push_str(word);
        }
    }
    match tensor.alignment() {
        Some(alignment) if alignment < 16 && !tensor.is_virtual() && !tensor.is_by_value() => {
            let _ = write!(text, " aligned to {alignment}");
        }
        _ => {}
    }
    text
}

/// Returns the tensors of a graph with their roles, without duplicate ids.
pub(super) fn tensors<'a>(operations: &'a [Operation<'a>]) -> Vec<&'a Operand<'a>> {
    let mut seen = std::collections::BTreeSet::new();
    operations.iter().flat_map(Operation::operands).filter(|operand| seen.insert(operand.tensor.uid())).collect()
}

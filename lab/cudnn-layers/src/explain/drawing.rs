//! Draws a graph as text: a line for each operation, with its tensors.

use std::fmt::Write;

use super::strides::packed;
use crate::shadow::content::Content;
use crate::shadow::{Named, Operation, all_operations};

/// Maximum number of operations in a drawing.
const MAX_OPERATIONS: usize = 64;

/// Returns a line for each operation, such as
/// `1. conv_fwd  x=1 [4,16,14,14] half, w=2 [32,16,3,3] half -> y=3 [4,32,14,14] half virtual; compute float`.
pub(super) fn draw(graph: &Content) -> String {
    let operations = all_operations(graph);
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
        let parameters = operation.parameters();
        if !parameters.is_empty() {
            text.push_str(&parameters);
        }
        text.push('\n');
    }
    if let Some(more) = operations.len().checked_sub(MAX_OPERATIONS + 1) {
        let _ = writeln!(text, "  and {} more operations", more + 1);
    }
    text
}

/// Formats a tensor as `x=1 [4,16,14,14] half nhwc`. Strides are shown if the tensor is neither row-major without gaps nor
/// channels-last.
fn tensor(named: &Named<'_>) -> String {
    let extents = named.extents();
    let uid = named.uid().map_or_else(|| "no id".to_owned(), |uid| uid.to_string());
    let mut text = format!("{}={uid} {} {}", named.role, list(&extents), named.data_type());
    if named.is_channels_last() {
        text.push_str(" nhwc");
    } else if named.strides() != packed(&extents) {
        let _ = write!(text, " strides {}", list(&named.strides()));
    }
    for (is_set, word) in [(named.is_virtual(), " virtual"), (named.is_by_value(), " by value")] {
        if is_set {
            text.push_str(word);
        }
    }
    match named.alignment() {
        Some(alignment) if alignment < 16 && !named.is_virtual() && !named.is_by_value() => {
            let _ = write!(text, " aligned to {alignment}");
        }
        _ => {}
    }
    text
}

fn list(numbers: &[i64]) -> String {
    format!("[{}]", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// Returns the tensors of a graph with their roles, each id once.
pub(super) fn tensors<'a>(operations: &'a [Operation<'a>]) -> Vec<&'a Named<'a>> {
    let mut seen = std::collections::BTreeSet::new();
    operations.iter().flat_map(Operation::tensors).filter(|named| seen.insert(named.uid())).collect()
}

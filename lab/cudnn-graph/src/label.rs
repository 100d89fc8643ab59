//! Describes a graph in one line, for example `conv_fwd + bias + relu x[8,64,56,56] w[64,64,3,3] half b[1,64,1,1] float
//! -> y[8,64,56,56] half / float, pad 1, nhwc`.
//!
//! A label contains, in this order: the operations in the program's order; the non-virtual tensors that the graph reads
//! and writes; `/` and the compute type; special parameters; and the layout.

use std::collections::BTreeSet;
use std::fmt::Write;

use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::graph::{Graph, Node};
use crate::names;
use crate::operation::{Operand, Operation, is_operation};

const MAX_OPERATIONS: usize = 12;
const MAX_TENSORS: usize = 8;
const MAX_DIMENSIONS: usize = 8;

/// Returns the label of the last descriptor, which can be of any kind.
pub fn describe(graph: &Graph) -> String {
    let Some(root) = graph.root() else { return String::new() };
    match root.kind {
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR => tensor(root),
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => {
            let operations = Operation::all_of(graph);
            let (inputs, outputs) = ends(&operations);
            describe_operations(&operations, &inputs, &outputs)
        }
        kind if is_operation(kind) => {
            let operation = Operation::new(graph, root);
            describe_operations(std::slice::from_ref(&operation), &operation.inputs, &operation.outputs)
        }
        kind => names::kind(kind).to_ascii_lowercase(),
    }
}

fn describe_operations(operations: &[Operation<'_>], inputs: &[Operand<'_>], outputs: &[Operand<'_>]) -> String {
    let mut text = operation_names(operations);
    for (separator, operands) in [(" ", inputs), (" -> ", outputs)] {
        if !operands.is_empty() {
            text.push_str(separator);
            text.push_str(&list(operands));
        }
    }
    // Take the compute type from the main operation of a fusion, such as a convolution or a matrix product.
    let main = operations.iter().find(|operation| !operation.is_pointwise()).or(operations.first());
    if let Some(compute_type) = main.and_then(Operation::compute_type) {
        let _ = write!(text, " / {compute_type}");
    }
    if let Some(operation) = operations.iter().find(|operation| operation.convolution().is_some()) {
        text.push_str(&parameters(operation));
    }
    if let Some(order) = order(inputs.iter().chain(outputs)) {
        let _ = write!(text, ", {order}");
    }
    text
}

/// Returns the inputs and outputs of the graph: tensors that are not passed between operations.
fn ends<'a>(operations: &[Operation<'a>]) -> (Vec<Operand<'a>>, Vec<Operand<'a>>) {
    let outputs = || operations.iter().flat_map(|operation| &operation.outputs);
    let written: BTreeSet<i64> = outputs().filter_map(|operand| operand.tensor.uid()).collect();
    let mut seen = BTreeSet::new();
    let mut inputs: Vec<_> = operations.iter().flat_map(|operation| &operation.inputs).cloned().collect();
    inputs.retain(|Operand { tensor, .. }| {
        let uid = tensor.uid();
        let is_inner = tensor.is_virtual() || uid.is_some_and(|uid| written.contains(&uid));
        // Skip scalars such as the epsilon of a normalization.
        !is_inner && !tensor.is_by_value() && uid.is_none_or(|uid| seen.insert(uid))
    });
    (inputs, outputs().filter(|operand| !operand.tensor.is_virtual()).cloned().collect())
}

fn operation_names(operations: &[Operation<'_>]) -> String {
    let names: Vec<&str> = operations.iter().map(|operation| operation.name.as_str()).collect();
    let mut names = with_softmax(&names);
    let more = names.len().saturating_sub(MAX_OPERATIONS);
    names.truncate(MAX_OPERATIONS);
    let mut text = names.join(" + ");
    if names.is_empty() {
        text.push_str("empty graph");
    }
    if more > 0 {
        let _ = write!(text, " + {more} more");
    }
    text
}

/// Replaces the operations that frontends use for a softmax with a single name. Runs in linear time, because hostile
/// graphs have many operations.
fn with_softmax<'a>(mut names: &[&'a str]) -> Vec<&'a str> {
    const START: [&str; 4] = ["reduce_max", "sub", "exp", "reduce_add"];
    let mut joined = Vec::with_capacity(names.len());
    while let Some((first, rest)) = names.split_first() {
        let Some(body) = names.strip_prefix(&START) else {
            joined.push(*first);
            names = rest;
            continue;
        };
        joined.push("softmax");
        // The logarithm and the sum are the statistics for training.
        let statistics = body.iter().take_while(|name| matches!(**name, "log" | "add" | "div")).count();
        names = body.get(statistics..).unwrap_or_default();
    }
    joined
}

/// Returns the parameters of a convolution that differ from the default, such as `, pad 1, stride 2`.
pub fn parameters(operation: &Operation<'_>) -> String {
    let mut text = String::new();
    let Some(convolution) = operation.convolution() else { return text };
    let before = convolution.integers(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    let after = convolution.integers(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    if before == after {
        list_unless(&mut text, "pad", before, 0);
    } else {
        list_unless(&mut text, "pad before", before, 0);
        list_unless(&mut text, "pad after", after, 0);
    }
    list_unless(&mut text, "stride", convolution.integers(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), 1);
    list_unless(&mut text, "dilation", convolution.integers(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS), 1);
    text
}

fn list_unless(text: &mut String, what: &str, values: &[i64], usual: i64) {
    let Some(first) = values.first() else { return };
    if values.iter().all(|value| value == first) {
        if *first != usual {
            let _ = write!(text, ", {what} {first}");
        }
    } else {
        let values: Vec<_> = values.iter().take(8).map(i64::to_string).collect();
        let _ = write!(text, ", {what} {}", values.join("x"));
    }
}

/// Formats a tensor as `tensor 1 [8,64,56,56] half nhwc`.
fn tensor(tensor: &Node) -> String {
    let mut text = "tensor".to_owned();
    if let Some(uid) = tensor.uid() {
        let _ = write!(text, " {uid}");
    }
    let _ = write!(text, " {} {}", dimensions(tensor), tensor.type_name());
    if tensor.is_channels_last() == Some(true) {
        text.push_str(" nhwc");
    }
    if tensor.is_virtual() {
        text.push_str(" virtual");
    }
    text
}

/// Formats tensors as `x[8,64,56,56] w[64,64,3,3] half b[1,64,1,1] float`. A type applies to all tensors before it.
fn list(operands: &[Operand<'_>]) -> String {
    let mut text = String::new();
    let mut shown = operands.iter().take(MAX_TENSORS).peekable();
    while let Some(Operand { role, tensor, .. }) = shown.next() {
        let type_name = tensor.type_name();
        let _ = write!(text, "{role}{}", dimensions(tensor));
        if shown.peek().is_none_or(|next| next.tensor.type_name() != type_name) {
            let _ = write!(text, " {type_name}");
        }
        if shown.peek().is_some() {
            text.push(' ');
        }
    }
    if let Some(more) = operands.len().checked_sub(MAX_TENSORS + 1) {
        let _ = write!(text, " and {} more", more + 1);
    }
    text
}

/// Formats numbers as `[4,64,64]`.
pub fn numbers(numbers: &[i64]) -> String {
    format!("[{}]", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

fn dimensions(tensor: &Node) -> String {
    let extents = tensor.extents();
    let mut texts: Vec<_> = extents.iter().take(MAX_DIMENSIONS).map(i64::to_string).collect();
    if extents.len() > MAX_DIMENSIONS {
        texts.push("..".to_owned());
    }
    format!("[{}]", texts.join(","))
}

/// Returns `nhwc` if all tensors with a recognizable layout are channels-last.
fn order<'a>(operands: impl Iterator<Item = &'a Operand<'a>>) -> Option<&'static str> {
    let (mut last, mut other) = (false, false);
    for is_last in operands.filter_map(|operand| operand.tensor.is_channels_last()) {
        last |= is_last;
        other |= !is_last;
    }
    match (last, other) {
        (true, false) => Some("nhwc"),
        (true, true) => Some("mixed nchw and nhwc"),
        (false, _) => None,
    }
}

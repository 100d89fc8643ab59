//! Describes a descriptor in one line, for example `conv_fwd + bias + relu x[8,64,56,56] w[64,64,3,3] half b[1,64,1,1]
//! float -> y[8,64,56,56] half / float, pad 1, nhwc; engine 12 {TILE_SIZE=3} tensor_core; proposal 1 of 5; workspace 4.0
//! MiB`.
//!
//! A label contains, in this order: the operations in the program's order; the tensors that the graph reads and writes,
//! without virtual tensors; `/` and the compute type; special parameters; the engine; its place among the
//! proposals of the heuristics; and the workspace size. The same
//! work has the same label at every step.

mod engine;
mod graph;
pub(super) mod names;
mod tensor;

use std::sync::Arc;

use super::content::Content;
use super::elements::{Kind, Name};
use names::short;

pub(crate) use engine::{bytes, place};
pub(crate) use graph::{Operation, all_operations, descriptors, is_operation, operations};
pub(crate) use names::data_type;
pub(crate) use tensor::Named;

/// Returns the label of a descriptor, or `None` if it has no useful description.
pub(super) fn of(content: &Arc<Content>) -> Option<String> {
    Some(match content.kind {
        Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR => return None,
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR => tensor::label(content),
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => graph::label(content),
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => {
            let mode = content.number(Name::CUDNN_ATTR_ENGINEHEUR_MODE);
            format!("{}; heuristics {}", graph_below(content), mode.map(names::heuristics_mode).unwrap_or_default())
        }
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR
        | Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
        | Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            let mut text = graph_below(content);
            engine::describe(content, &mut text);
            text
        }
        Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR => engine::knob_choice(content)?,
        _ if graph::is_operation(content) => graph::operation_label(content),
        kind => short(kind.name(), "CUDNN_BACKEND_", "_DESCRIPTOR")?,
    })
}

/// Returns the label of a descriptor's graph.
fn graph_below(content: &Arc<Content>) -> String {
    match super::graph_of(content) {
        Some(graph) => graph::label(graph),
        None if content.attribute(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION).is_some() => {
            "plan restored from JSON".to_owned()
        }
        None => "unknown graph".to_owned(),
    }
}

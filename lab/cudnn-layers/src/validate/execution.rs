//! Compares the variant pack of an execution with the plan's graph. The tensors of a plan are collected once, because
//! programs execute it at every step.

use std::sync::Arc;

use cudnn_graph::{Node, Operation};
use cudnn_sys::types::cudnnDataType_t as DataType;

use super::descriptor::is_known;
use super::graph;
use super::message::State;
use super::rules::{self, ValidationRule};
use super::texts::{positions, tensor};
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw};
use crate::table::Table;

pub(super) struct Tensors {
    /// Sorted by id.
    all: Vec<PackEntry>,
    label: Option<Arc<str>>,
}

struct PackEntry {
    id: i64,
    /// The alignment in bytes, which is 1 for tensors that are passed by value.
    alignment: usize,
    is_required: bool,
    /// For example `input x (tensor 1) of relu, operation 1 of 1`.
    text: String,
}

/// The content of a plan with the tensors from it, or `None` if the graph is not completely known.
pub(super) type Collected = (Arc<Content>, Option<Arc<Tensors>>);

pub(super) static PLANS: Table<Collected> = Table::new(4096);

pub(super) fn forget(plan: Raw) {
    PLANS.remove(plan.addr());
}

fn tensors_of(plan: Raw) -> Option<Arc<Tensors>> {
    let content = shadow::content(plan)?;
    if let Some((_, tensors)) = PLANS.get(plan.addr()).filter(|(of, _)| Arc::ptr_eq(of, &content)) {
        return tensors;
    }
    let tensors = collect(plan, &content).map(Arc::new);
    PLANS.insert(plan.addr(), (content, tensors.clone()));
    tensors
}

fn collect(plan: Raw, content: &Arc<Content>) -> Option<Tensors> {
    if content.kind != Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !is_known(content) {
        return None;
    }
    let mut levels = std::iter::successors(Some(content), |content| shadow::toward_graph(content));
    let graph =
        levels.find(|content| content.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR || content.is_uncertain)?;
    let graph = graph::known(graph)?;
    let operations = Operation::all_of(&graph);
    let mut all: Vec<PackEntry> = Vec::new();
    for place in positions(&operations) {
        let operation = place.operation;
        for operand in operation.operands().filter(|operand| !operand.tensor.is_virtual()) {
            let text = format!("{} of {place}", tensor(operation, operand));
            all.extend(entry(operand.tensor, text, true));
        }
        for operand in operation.operands() {
            if let Some(offset) = graph.children(operand.tensor, Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).first() {
                let text = format!("the ragged offset of {} of {place}", tensor(operation, operand));
                all.extend(entry(offset, text, false));
            }
        }
    }
    // Tensors of nested graphs may be optional.
    for operation in Operation::nested_in(&graph).iter().skip(operations.len()) {
        let tensors = operation.operands().filter(|operand| !operand.tensor.is_virtual());
        all.extend(tensors.filter_map(|operand| entry(operand.tensor, tensor(operation, operand), false)));
    }
    all.sort_by_key(|entry| (entry.id, !entry.is_required));
    all.dedup_by_key(|entry| entry.id);
    Some(Tensors { all, label: shadow::label(plan) })
}

fn entry(tensor: &Node, text: String, is_required: bool) -> Option<PackEntry> {
    let is_by_value = tensor.is_by_value();
    let alignment = tensor.alignment().filter(|_| !is_by_value);
    let alignment = alignment.and_then(|alignment| usize::try_from(alignment).ok()).unwrap_or(1).max(1);
    // Frontends also state the default alignment for scalars, sequence lengths and offsets, which are read one by one.
    let data_type = tensor.data_type().unwrap_or(0);
    let is_one_element = tensor.extents().iter().all(|extent| *extent == 1);
    let alignment = match DataType(data_type as u32) {
        _ if is_one_element => 1,
        DataType::CUDNN_DATA_INT32 => alignment.min(4),
        DataType::CUDNN_DATA_INT64 => alignment.min(8),
        _ => alignment,
    };
    Some(PackEntry { id: tensor.uid()?, alignment, is_required: is_required && !is_by_value, text })
}

impl Tensors {
    fn report(&self, state: &State, rule: &ValidationRule, what: &str) {
        let label = self.label.as_deref().unwrap_or("a plan");
        state.report(rule, &format!("{what}, in the execution of {label}"));
    }
}

pub(super) fn executing(state: &State, plan: Raw, pack: Raw) {
    let (Some(tensors), Some(pack)) = (tensors_of(plan), shadow::content(pack)) else { return };
    let Some([ids, pointers]) = pack.variant_pack() else { return };
    let required = tensors.all.iter().filter(|entry| entry.is_required);
    if ids.is_empty() {
        let count = required.count();
        if count > 0 {
            let what = format!("the variant pack is empty, expected {count} tensors");
            tensors.report(state, &rules::EMPTY_PACK, &what);
        }
        return;
    }
    let mut seen = vec![false; tensors.all.len()];
    for (id, pointer) in ids.iter().zip(pointers) {
        let (id, pointer) = (i64::from_ne_bytes(*id), u64::from_ne_bytes(*pointer) as usize);
        let Ok(index) = tensors.all.binary_search_by_key(&id, |entry| entry.id) else { continue };
        let (Some(entry), Some(seen)) = (tensors.all.get(index), seen.get_mut(index)) else { continue };
        if std::mem::replace(seen, true) {
            let what = format!("{} is in the variant pack twice", entry.text);
            tensors.report(state, &rules::DUPLICATE_ENTRY, &what);
        }
        if pointer == 0 && entry.is_required {
            tensors.report(state, &rules::NULL_POINTER, &format!("the pointer of {} is null", entry.text));
        } else if !pointer.is_multiple_of(entry.alignment) {
            // The message omits the address, so that it is the same in every step.
            let (actual, stated) = (1_usize << pointer.trailing_zeros(), entry.alignment);
            let what = format!("{} is aligned to {actual} bytes, expected {stated}", entry.text);
            tensors.report(state, &rules::MISALIGNED, &what);
        }
    }
    for (entry, _) in tensors.all.iter().zip(seen).filter(|(entry, is_seen)| entry.is_required && !is_seen) {
        tensors.report(state, &rules::MISSING_ENTRY, &format!("{} is not in the variant pack", entry.text));
    }
}

/// Checks the pack after a failed execution. Some engines ignore unknown entries.
pub(super) fn failed(state: &State, plan: Raw, pack: Raw) {
    let (Some(tensors), Some(pack)) = (tensors_of(plan), shadow::content(pack)) else { return };
    let Some([ids, _]) = pack.variant_pack() else { return };
    for id in ids.iter().map(|id| i64::from_ne_bytes(*id)) {
        if tensors.all.binary_search_by_key(&id, |entry| entry.id).is_err() {
            let what = format!("the variant pack contains tensor {id}, which is not in the graph");
            tensors.report(state, &rules::UNKNOWN_ENTRY, &what);
        }
    }
}

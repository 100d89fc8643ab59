//! Checks how the operations of a graph are connected.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudnn_graph::label::numbers as shape;
use cudnn_graph::names::data_type;
use cudnn_graph::operation::{has_known_roles, is_operation};
use cudnn_graph::{Graph, Node, Operand, Operation};
use cudnn_sys::types::cudnnDataType_t as DataType;

use super::message::State;
use super::texts::{OperationPosition, positions, tensor};
use super::{operation, rules};
use crate::lock::Lock;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name};

const MAX_OPERATIONS: usize = 512;

/// The last checked graph, because programs create many engines for one graph.
pub(super) static CHECKED: Lock<Option<Arc<Content>>> = Lock::new(None);

pub(super) fn known(content: &Arc<Content>) -> Option<Graph> {
    let is_graph = content.kind == Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
    let count = content.children(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS).len();
    let graph = shadow::graph(content).ok().filter(|_| is_graph && count <= MAX_OPERATIONS)?;
    graph.operations().iter().all(|operation| is_operation(operation.kind)).then_some(graph)
}

/// Checks an operation that cuDNN has refused, without a graph.
pub(super) fn operation_refused(state: &State, content: &Arc<Content>) {
    let graph = shadow::graph(content);
    if let Some((graph, root)) = graph.as_ref().ok().and_then(|graph| Some((graph, graph.root()?))) {
        let place = OperationPosition { operation: &Operation::new(graph, root), number: None };
        operation::check(state, place, false, true);
    }
}

pub(super) fn finalized(state: &State, graph: &Arc<Content>, has_failed: bool) {
    let Some(graph) = known(graph) else { return };
    let operations = Operation::all_of(&graph);
    let is_in_attention = is_attention(&operations);
    for place in positions(&operations) {
        operation::check(state, place, is_in_attention, has_failed);
    }
    let check = GraphCheck::new(state, &operations);
    check.ids();
    if has_failed {
        check.producers();
        check.cycles();
        check.whole();
    }
}

/// Checks a graph for which the program searches an engine. Rules about the graph's inputs and outputs apply only then,
/// because a nested graph reads and writes virtual tensors of the outer graph.
pub(super) fn used(state: &State, graph: &Arc<Content>) {
    let Some(mut checked) = CHECKED.lock() else { return };
    if checked.as_ref().is_some_and(|checked| Arc::ptr_eq(checked, graph)) {
        return;
    }
    let former = checked.replace(graph.clone());
    drop(checked);
    drop(former);
    let Some(graph) = known(graph) else { return };
    let operations = Operation::all_of(&graph);
    let check = GraphCheck::new(state, &operations);
    check.whole();
    check.attention();
}

#[derive(Clone, Copy)]
struct TensorUse<'a> {
    /// The index of the operation.
    operation: usize,
    place: OperationPosition<'a>,
    is_output: bool,
    operand: &'a Operand<'a>,
}

struct GraphCheck<'a> {
    state: &'a State,
    operations: &'a [Operation<'a>],
    uses: Vec<(i64, TensorUse<'a>)>,
    by_id: BTreeMap<i64, Vec<usize>>,
    has_all_ids: bool,
}

impl<'a> GraphCheck<'a> {
    fn new(state: &'a State, operations: &'a [Operation<'a>]) -> Self {
        let (mut uses, mut by_id, mut has_all_ids) = (Vec::new(), BTreeMap::<i64, Vec<usize>>::new(), true);
        for (index, place) in positions(operations).enumerate() {
            let operation = place.operation;
            let outputs = operation.outputs.iter().map(|operand| (true, operand));
            for (is_output, operand) in operation.inputs.iter().map(|operand| (false, operand)).chain(outputs) {
                let Some(id) = operand.tensor.uid() else {
                    has_all_ids = false;
                    continue;
                };
                by_id.entry(id).or_default().push(uses.len());
                uses.push((id, TensorUse { operation: index, place, is_output, operand }));
            }
        }
        GraphCheck { state, operations, uses, by_id, has_all_ids }
    }

    fn uses_of(&self, id: i64) -> impl Iterator<Item = TensorUse<'a>> {
        let positions = self.by_id.get(&id).map(Vec::as_slice).unwrap_or_default();
        positions.iter().filter_map(|position| self.uses.get(*position)).map(|(_, found)| *found)
    }

    /// Returns a text such as `output y (tensor 4) of relu, operation 2 of 2`.
    fn text(found: TensorUse<'_>) -> String {
        format!("{} of {}", tensor(found.place.operation, found.operand), found.place)
    }

    fn report(&self, rule: &rules::ValidationRule, found: TensorUse<'_>, what: &str) {
        let TensorUse { place, operand, .. } = found;
        self.state.report(rule, &format!("{place}: {} {what}", tensor(place.operation, operand)));
    }

    /// Finds different tensors with the same id. Programs may create several equal descriptors for a tensor.
    fn ids(&self) {
        for (id, found) in &self.uses {
            let Some(first) = self.uses_of(*id).next() else { continue };
            if let Some((one, other)) = difference(first.operand.tensor, found.operand.tensor) {
                self.report(&rules::DUPLICATE_ID, *found, &format!("is {other}, but {} is {one}", Self::text(first)));
            }
        }
    }

    fn producers(&self) {
        for (id, found) in self.uses.iter().filter(|(_, found)| found.is_output) {
            let first = self.uses_of(*id).find(|found| found.is_output);
            if let Some(first) = first.filter(|first| first.operation != found.operation) {
                self.report(&rules::TWO_PRODUCERS, *found, &format!("is also {}", Self::text(first)));
            }
        }
    }

    fn readers(&self, operation: usize) -> Vec<usize> {
        let written = self.uses.iter().filter(|(_, found)| found.is_output && found.operation == operation);
        written
            .flat_map(|(id, _)| self.uses_of(*id))
            .filter(|found| !found.is_output)
            .map(|found| found.operation)
            .collect()
    }

    fn cycles(&self) {
        for (_, output) in self.uses.iter().filter(|(_, found)| found.is_output) {
            let (mut seen, mut next) = (vec![false; self.operations.len()], self.readers(output.operation));
            while let Some(reader) = next.pop() {
                if reader == output.operation {
                    self.report(&rules::CYCLE, *output, "depends on itself");
                    return;
                }
                if let Some(seen) = seen.get_mut(reader)
                    && !std::mem::replace(seen, true)
                {
                    next.extend(self.readers(reader));
                }
            }
        }
    }

    fn whole(&self) {
        let are_roles_known = self.operations.iter().all(has_known_roles);
        if !are_roles_known || !self.has_all_ids {
            return;
        }
        self.connections();
        let is_read = |found: &TensorUse<'_>| {
            !found.is_output && found.operand.tensor.is_virtual() && !found.operand.tensor.is_by_value()
        };
        for (id, found) in self.uses.iter().filter(|(_, found)| is_read(found)) {
            if !self.uses_of(*id).any(|found| found.is_output) {
                self.report(&rules::UNPRODUCED, *found, "is virtual, but no operation writes it");
            }
        }
        let mut outputs = self.uses.iter().map(|(_, found)| *found).filter(|found| found.is_output);
        if outputs.clone().all(|found| found.operand.tensor.is_virtual())
            && let Some(last) = outputs.next_back()
        {
            self.report(&rules::NO_OUTPUT, last, "is virtual, and so are all outputs; expected one that is not");
        }
    }

    /// Reports operations that no chain of shared tensors connects to the first one.
    fn connections(&self) {
        let mut is_connected = vec![false; self.operations.len()];
        let mut next = vec![0];
        let mut tensors: Vec<Vec<i64>> = vec![Vec::new(); self.operations.len()];
        for (id, found) in &self.uses {
            if let Some(ids) = tensors.get_mut(found.operation) {
                ids.push(*id);
            }
        }
        while let Some(index) = next.pop() {
            match is_connected.get_mut(index) {
                Some(is_connected) if !*is_connected => *is_connected = true,
                _ => continue,
            }
            let ids = tensors.get(index).map(Vec::as_slice).unwrap_or_default();
            next.extend(ids.iter().flat_map(|id| self.uses_of(*id)).map(|found| found.operation));
        }
        let mut places = positions(self.operations).zip(is_connected);
        if let Some((place, _)) = places.find(|(_, is_connected)| !is_connected) {
            let tensors: Vec<_> = place.operation.operands().map(|operand| tensor(place.operation, operand)).collect();
            let what = format!("{place}: {} connect it to no operation before it", tensors.join(" and "));
            self.state.report(&rules::DISCONNECTED, &what);
        }
    }

    /// Reports an attention with inputs of 32-bit floats.
    fn attention(&self) {
        let has_softmax = ["reduce_max", "reduce_add"].iter().all(|name| count(self.operations, name) > 0);
        let is_composed = is_attention(self.operations) && has_softmax;
        for (_, found) in &self.uses {
            let is_query = match found.place.operation.node.kind {
                Kind::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR
                | Kind::CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR => found.operand.role == "q",
                Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => is_composed && found.operand.role == "a",
                _ => false,
            };
            let number = found.operand.tensor.data_type();
            let is_float = number == Some(i64::from(DataType::CUDNN_DATA_FLOAT.0));
            if is_query && is_float && !found.is_output && !found.operand.tensor.is_virtual() {
                let what = "is float, but the engines for attention compute with 16 or 8 bits";
                self.report(&rules::FLOAT_ATTENTION, *found, what);
                return;
            }
        }
    }
}

fn count(operations: &[Operation<'_>], name: &str) -> usize {
    operations.iter().filter(|operation| operation.name == name).count()
}

/// Returns whether operations form an attention, forward or backward.
fn is_attention(operations: &[Operation<'_>]) -> bool {
    count(operations, "matmul") >= 2 && count(operations, "exp") > 0
}

fn difference(one: &Node, other: &Node) -> Option<(String, String)> {
    if std::ptr::eq(one, other) {
        return None;
    }
    let numbers = |name, format: fn(&[i64]) -> String| {
        let (one, other) = (one.integers(name), other.integers(name));
        (one != other && !one.is_empty() && !other.is_empty()).then(|| (format(one), format(other)))
    };
    let flag = |name, yes: &str| {
        let (one, other) = (one.integer(name) == Some(1), other.integer(name) == Some(1));
        let text = |is_set| if is_set { yes.to_owned() } else { format!("not {yes}") };
        (one != other).then(|| (text(one), text(other)))
    };
    numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, shape)
        .or_else(|| {
            numbers(Name::CUDNN_ATTR_TENSOR_STRIDES, |strides| format!("a tensor with the strides {}", shape(strides)))
        })
        .or_else(|| {
            numbers(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, |types| {
                types.first().copied().map(data_type).unwrap_or_default()
            })
        })
        .or_else(|| flag(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, "virtual"))
        .or_else(|| flag(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, "by value"))
}

//! A graph with nodes that can be changed.

use std::collections::BTreeSet;

use cudnn_capture_file::{Attribute, Graph, Node, Value};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};

/// The nodes of a graph.
#[derive(Clone)]
pub(super) struct Edit {
    pub(super) nodes: Vec<Node>,
    /// The ids of the tensors that operations wrote before the changes.
    written: BTreeSet<i64>,
}

impl Edit {
    pub(super) fn new(graph: &Graph) -> Self {
        Edit { nodes: graph.nodes().to_vec(), written: written(graph) }
    }

    /// Returns the indices of the tensors.
    pub(super) fn tensors(&self) -> Vec<usize> {
        let is_tensor = |(_, node): &(usize, &Node)| node.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR;
        self.nodes.iter().enumerate().filter(is_tensor).map(|(index, _)| index).collect()
    }

    /// Returns the integers of an attribute. Empty if it is not set.
    pub(super) fn integers(&self, node: usize, name: Name) -> Vec<i64> {
        self.nodes.get(node).map(|node| node.integers(name).to_vec()).unwrap_or_default()
    }

    /// Returns the indices of the descriptors of an attribute.
    pub(super) fn children(&self, node: usize, name: Name) -> Vec<usize> {
        match self.nodes.get(node).and_then(|node| node.value(name)) {
            Some(Value::Nodes(children)) => children.clone(),
            _ => Vec::new(),
        }
    }

    /// Replaces the integers of an attribute that is set.
    pub(super) fn replace(&mut self, node: usize, name: Name, integers: Vec<i64>) {
        self.replace_value(node, name, Value::Integers(integers));
    }

    /// Replaces the value of an attribute that is set.
    pub(super) fn replace_value(&mut self, node: usize, name: Name, value: Value) {
        let attributes = self.nodes.get_mut(node).map(|node| node.attributes.iter_mut());
        if let Some(attribute) = attributes.and_then(|mut all| all.find(|attribute| attribute.name == name)) {
            attribute.value = value;
        }
    }

    /// Returns the graph without descriptors that nothing refers to, or `None` if there are no operations.
    pub(super) fn finish(mut self) -> Option<Graph> {
        let root = self.nodes.len().checked_sub(1)?;
        if self.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS).is_empty() {
            return None;
        }
        self.expose_lone_tensors(root);
        let used = self.reachable(root);
        let places: Vec<usize> = used.iter().copied().collect();
        let nodes = places.iter().filter_map(|place| self.nodes.get(*place).cloned()).map(|mut node| {
            for attribute in &mut node.attributes {
                if let Value::Nodes(children) = &mut attribute.value {
                    for child in children {
                        *child = places.binary_search(child).unwrap_or(*child);
                    }
                }
            }
            node
        });
        Graph::new(nodes.collect()).ok()
    }

    /// Returns the descriptor and everything that it refers to.
    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let (mut found, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(index) = next.pop() {
            if found.insert(index) {
                for attribute in self.nodes.get(index).iter().flat_map(|node| &node.attributes) {
                    if let Value::Nodes(children) = &attribute.value {
                        next.extend(children);
                    }
                }
            }
        }
        found
    }

    /// Moves tensors to memory if they no longer connect two operations, or if no operation writes them any more.
    fn expose_lone_tensors(&mut self, root: usize) {
        let operations = self.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS);
        let ids_of = |operation: &usize| -> BTreeSet<i64> {
            let below = self.reachable(*operation);
            below
                .iter()
                .filter_map(|index| self.nodes.get(*index)?.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID))
                .collect()
        };
        let ids: Vec<BTreeSet<i64>> = operations.iter().map(ids_of).collect();
        let written = Graph::new(self.nodes.clone()).map(|graph| written(&graph)).unwrap_or_default();
        let is_lone = |id| {
            ids.iter().filter(|ids| ids.contains(&id)).count() < 2
                || self.written.contains(&id) && !written.contains(&id)
        };
        for node in &mut self.nodes {
            if node.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).is_some_and(is_lone) {
                node.attributes.retain(|attribute| attribute.name != Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL);
            }
        }
    }
}

/// Returns the ids of the tensors that operations write.
fn written(graph: &Graph) -> BTreeSet<i64> {
    graph.operations().into_iter().flat_map(|operation| graph.outputs(operation)).collect()
}

/// Returns an attribute with the integers 1 or 0, or with floats.
pub(super) fn scale(attribute: &Attribute, number: f64) -> Option<Value> {
    match attribute.ty {
        Type::CUDNN_TYPE_FLOAT | Type::CUDNN_TYPE_DOUBLE => Some(Value::Floats(vec![number])),
        _ => None,
    }
}

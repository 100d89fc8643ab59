//! A graph with nodes that can be changed.

use std::collections::BTreeSet;

use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use crate::graph::{Graph, Node, reachable};
use crate::value::Value;

/// The nodes of a graph, which may be changed in any way.
#[derive(Clone)]
pub struct Edit {
    /// The descriptors, the graph last.
    pub nodes: Vec<Node>,
    /// The ids of the tensors that operations wrote before the changes.
    written: BTreeSet<i64>,
}

impl Edit {
    /// Returns the nodes of a graph.
    pub fn new(graph: &Graph) -> Self {
        Edit { nodes: graph.nodes().to_vec(), written: written(graph) }
    }

    /// Returns the indices of the tensors.
    pub fn tensors(&self) -> Vec<usize> {
        let is_tensor = |(_, node): &(usize, &Node)| node.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR;
        self.nodes.iter().enumerate().filter(is_tensor).map(|(index, _)| index).collect()
    }

    /// Returns the integers of an attribute, or an empty list if it is not set.
    pub fn integers(&self, node: usize, name: Name) -> Vec<i64> {
        self.nodes.get(node).map(|node| node.integers(name).to_vec()).unwrap_or_default()
    }

    /// Returns the indices of the descriptors of an attribute.
    pub fn children(&self, node: usize, name: Name) -> Vec<usize> {
        self.nodes.get(node).and_then(|node| node.value(name)).map(|value| value.places().to_vec()).unwrap_or_default()
    }

    /// Replaces the integers of an attribute that is set.
    pub fn replace(&mut self, node: usize, name: Name, integers: Vec<i64>) {
        self.replace_value(node, name, Value::Integers(integers));
    }

    /// Replaces the value of an attribute that is set.
    pub fn replace_value(&mut self, node: usize, name: Name, value: Value) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.replace(name, value);
        }
    }

    /// Drops all operations except the selected ones. The filter receives the index of an operation.
    pub fn keep_operations(&mut self, is_kept: impl Fn(usize) -> bool) {
        let root = self.nodes.len().saturating_sub(1);
        let operations = self.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS).into_iter().enumerate();
        let kept = operations.filter(|(place, _)| is_kept(*place)).map(|(_, operation)| operation).collect();
        self.replace_value(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, Value::Nodes(kept));
    }

    /// Returns the graph without unreferenced descriptors, or `None` if there are no operations.
    pub fn finish(mut self) -> Option<Graph> {
        let root = self.nodes.len().checked_sub(1)?;
        if self.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS).is_empty() {
            return None;
        }
        self.expose_lone_tensors(root);
        let places: Vec<usize> = reachable(&self.nodes, root).into_iter().collect();
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

    /// Makes tensors non-virtual if they no longer connect two operations, or if no remaining operation writes them.
    fn expose_lone_tensors(&mut self, root: usize) {
        let operations = self.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS);
        let ids_of = |operation: &usize| -> BTreeSet<i64> {
            let below = reachable(&self.nodes, *operation);
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

fn written(graph: &Graph) -> BTreeSet<i64> {
    graph.operations().into_iter().flat_map(|operation| graph.outputs(operation)).collect()
}

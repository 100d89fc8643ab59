//! Converts contents of descriptors to the lists of descriptors in a capture.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudnn_capture_file::{Attribute, Graph, Node, Value};

use crate::shadow::canonical::Obstacle;
use crate::shadow::content::{self, Child, Content};
use crate::shadow::elements::{Name, Type};

/// Returns a graph.
///
/// # Errors
/// Returns the reason if a part of the graph is unknown.
pub(crate) fn graph(content: &Arc<Content>) -> Result<Graph, String> {
    let mut nodes = Nodes { is_strict: true, ..Nodes::default() };
    nodes.add(content).map_err(|obstacle| obstacle.to_string())?;
    Graph::new(nodes.nodes)
}

/// Returns a descriptor with everything below it, as far as it is known.
pub(crate) fn known_parts(content: &Arc<Content>) -> Vec<Node> {
    let mut nodes = Nodes::default();
    match nodes.add(content) {
        Ok(_) if nodes.nodes.len() <= cudnn_capture_file::MAX_NODES => nodes.nodes,
        _ => Vec::new(),
    }
}

/// Distinct descriptors, children before parents.
#[derive(Default)]
struct Nodes {
    nodes: Vec<Node>,
    by_text: BTreeMap<String, usize>,
    /// Keeps the contents alive, because a new content could otherwise reuse a known address.
    by_address: BTreeMap<*const Content, (usize, Arc<Content>)>,
    /// Unknown parts are errors.
    is_strict: bool,
}

impl Nodes {
    fn add(&mut self, content: &Arc<Content>) -> Result<usize, Obstacle> {
        if let Some((place, _)) = self.by_address.get(&Arc::as_ptr(content)) {
            return Ok(*place);
        }
        if self.is_strict && (content.lacks_attributes || content.origin.is_some()) {
            return Err(Obstacle::Unseen);
        }
        if self.is_strict && content.is_uncertain {
            return Err(Obstacle::Uncertain);
        }
        let mut attributes = Vec::with_capacity(content.attributes.len());
        for attribute in &content.attributes {
            match self.value(attribute) {
                Ok(value) => attributes.push(Attribute { name: attribute.name, ty: attribute.ty, value }),
                Err(obstacle) if self.is_strict => return Err(obstacle),
                Err(_) => {}
            }
        }
        let node = Node { kind: content.kind, is_finalized: content.is_finalized, attributes };
        let text = serde_json::to_string(&node).unwrap_or_default();
        let next = self.nodes.len();
        let place = *self.by_text.entry(text).or_insert(next);
        if place == next {
            self.nodes.push(node);
        }
        self.by_address.insert(Arc::as_ptr(content), (place, content.clone()));
        Ok(place)
    }

    fn value(&mut self, attribute: &content::Attribute) -> Result<Value, Obstacle> {
        let name = attribute.name;
        match &attribute.value {
            // Compiled plans are not part of a capture.
            _ if name == Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION => Err(Obstacle::TooLarge(name)),
            content::Value::Elements(_) if attribute.ty == Type::CUDNN_TYPE_HANDLE => {
                Ok(Value::Handles(usize::try_from(attribute.count).unwrap_or(0)))
            }
            content::Value::Elements(bytes) => {
                let value = Value::from_bytes(attribute.ty, attribute.count, bytes.as_slice());
                value.ok_or(Obstacle::Undeclared(name))
            }
            content::Value::Descriptors(children) => {
                let places = children.iter().map(|child| match child {
                    Child::Known(child) => self.add(child),
                    Child::Unknown => Err(Obstacle::Unseen),
                });
                Ok(Value::Nodes(places.collect::<Result<_, _>>()?))
            }
            content::Value::Undeclared => Err(Obstacle::Undeclared(name)),
            content::Value::TooLarge => Err(Obstacle::TooLarge(name)),
        }
    }
}

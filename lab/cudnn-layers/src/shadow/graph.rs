//! Converts the contents of descriptors to graphs, the model that all other modules use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use cudnn_graph::{Attribute, Graph, GraphBuilder, MAX_NODES, Node, Value};

use super::content::{self, Content};
use super::elements::{Name, Type};

/// Why a descriptor cannot be converted.
pub(crate) type Obstacle = Cow<'static, str>;

/// Creating a descriptor or setting an attribute bypassed the layers.
pub(crate) const UNSEEN: Obstacle = Cow::Borrowed("the history of a descriptor is incomplete");
pub(crate) const UNCERTAIN: Obstacle =
    Cow::Borrowed("a descriptor was set twice, rejected a change, was reset, or was read from another one");

pub(crate) fn too_many() -> Obstacle {
    format!("there are more than {MAX_NODES} descriptors").into()
}

/// Returns a descriptor with everything that it refers to.
pub(crate) fn graph(content: &Arc<Content>) -> Result<Graph, Obstacle> {
    let mut conversion = Conversion { is_strict: true, ..Conversion::default() };
    conversion.add(content)?;
    conversion.builder.finish().map_err(|_| too_many())
}

/// Returns the known parts of a descriptor and its children, or an empty graph if there are too many.
pub(crate) fn known_parts(content: &Arc<Content>) -> Graph {
    let mut conversion = Conversion::default();
    let added = conversion.add(content);
    added.ok().and_then(|_| conversion.builder.finish().ok()).unwrap_or_default()
}

/// Distinct descriptors, children before parents.
#[derive(Default)]
struct Conversion {
    builder: GraphBuilder,
    /// Owns the contents, because a new content could otherwise reuse a known address.
    by_address: BTreeMap<*const Content, (usize, Arc<Content>)>,
    /// Unknown parts are errors.
    is_strict: bool,
}

impl Conversion {
    fn add(&mut self, content: &Arc<Content>) -> Result<usize, Obstacle> {
        if let Some((place, _)) = self.by_address.get(&Arc::as_ptr(content)) {
            return Ok(*place);
        }
        // The attributes of descriptors that cuDNN filled are unknown.
        if self.is_strict && (content.lacks_attributes || content.origin.is_some()) {
            return Err(UNSEEN);
        }
        if self.is_strict && content.is_uncertain {
            return Err(UNCERTAIN);
        }
        if self.by_address.len() > MAX_NODES {
            return Err(too_many());
        }
        let mut attributes = Vec::with_capacity(content.attributes.len());
        for attribute in &content.attributes {
            match self.value(attribute) {
                Ok(value) => attributes.push(Attribute { name: attribute.name, ty: attribute.ty, value }),
                Err(obstacle) if self.is_strict => return Err(obstacle),
                Err(_) => {}
            }
        }
        let place = self.builder.add(Node { kind: content.kind, is_finalized: content.is_finalized, attributes });
        self.by_address.insert(Arc::as_ptr(content), (place, content.clone()));
        Ok(place)
    }

    fn value(&mut self, attribute: &content::RecordedAttribute) -> Result<Value, Obstacle> {
        let name = attribute.name;
        let undeclared = || format!("{name:?} was set to undeclared elements").into();
        let too_large = || format!("{name:?} is too large").into();
        match &attribute.value {
            // Compiled plans are not part of a graph.
            _ if name == Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION => Err(too_large()),
            content::RecordedValue::Elements(_) if attribute.ty == Type::CUDNN_TYPE_HANDLE => {
                Ok(Value::Handles(usize::try_from(attribute.count).unwrap_or(0)))
            }
            content::RecordedValue::Elements(bytes) => {
                let value = Value::from_bytes(attribute.ty, attribute.count, bytes.as_slice());
                value.ok_or_else(undeclared)
            }
            content::RecordedValue::Descriptors(children) => {
                let is_strict = self.is_strict;
                let places = children.iter().map(|child| child.as_ref().map_or(Err(UNSEEN), |child| self.add(child)));
                let known = places.filter(|place| is_strict || place.is_ok());
                Ok(Value::Nodes(known.collect::<Result<_, _>>()?))
            }
            content::RecordedValue::Undeclared => Err(undeclared()),
            content::RecordedValue::TooLarge => Err(too_large()),
        }
    }
}

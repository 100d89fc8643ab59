//! A graph as a list of descriptors, with JSON and an id that depend only on the content.

use std::collections::{BTreeMap, BTreeSet};

use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};

use crate::names::{self, ATTRIBUTES, KINDS};
use crate::value::Value;

/// Maximum number of descriptors in a graph.
pub const MAX_NODES: usize = 20_000;
/// Maximum number of references between descriptors, because one attribute can repeat a descriptor any number of times.
const MAX_REFERENCES: usize = 10 * MAX_NODES;

/// A list of descriptors. Descriptors refer only to earlier ones, and the last descriptor is the graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Graph {
    nodes: Vec<Node>,
}

/// A descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The kind of descriptor.
    pub kind: Kind,
    /// Whether the program has finalized it.
    pub is_finalized: bool,
    /// The attributes, in the order in which they are set.
    pub attributes: Vec<Attribute>,
}

/// An attribute of a descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name.
    pub name: Name,
    /// The type of the elements.
    pub ty: Type,
    /// The elements.
    pub value: Value,
}

impl Graph {
    /// Returns a graph with these descriptors.
    ///
    /// # Errors
    /// Returns the reason if there are no or too many descriptors or references, or if one points forward.
    pub fn new(nodes: Vec<Node>) -> Result<Self, String> {
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            return Err(format!("a graph has {} descriptors; 1 to {MAX_NODES} are allowed", nodes.len()));
        }
        let attributes = nodes.iter().flat_map(|node| &node.attributes);
        let references: usize = attributes.map(|attribute| attribute.value.places().len()).sum();
        if references > MAX_REFERENCES {
            return Err(format!("a graph has {references} references; at most {MAX_REFERENCES} are allowed"));
        }
        for (place, node) in nodes.iter().enumerate() {
            for attribute in &node.attributes {
                if let Value::Nodes(children) = &attribute.value
                    && let Some(child) = children.iter().find(|child| **child >= place)
                {
                    return Err(format!("descriptor {place} refers to descriptor {child}, which does not precede it"));
                }
            }
        }
        Ok(Graph { nodes })
    }

    /// Returns the descriptors. References point to earlier descriptors.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the descriptor of the graph itself.
    pub fn root(&self) -> Option<&Node> {
        self.nodes.last()
    }

    /// Returns the descriptors of an attribute.
    pub fn children(&self, node: &Node, name: Name) -> Vec<&Node> {
        let Some(Value::Nodes(children)) = node.value(name) else { return Vec::new() };
        children.iter().filter_map(|child| self.nodes.get(*child)).collect()
    }

    /// Returns the descriptors to which a descriptor refers, with the attributes.
    pub fn descriptors<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = (&'a Attribute, &'a Node)> {
        node.attributes.iter().flat_map(move |attribute| {
            let children = attribute.value.places();
            children.iter().filter_map(move |child| Some((attribute, self.nodes.get(*child)?)))
        })
    }

    /// Returns the descriptors of the operations.
    pub fn operations(&self) -> Vec<&Node> {
        self.root().map(|root| self.children(root, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS)).unwrap_or_default()
    }

    /// Returns the tensors, in the order of the descriptors.
    pub fn tensors(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.kind == Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    }

    /// Returns the tensor with this id.
    pub fn tensor(&self, uid: i64) -> Option<&Node> {
        self.tensors().find(|tensor| tensor.uid() == Some(uid))
    }

    /// Returns the graph with changed descriptors, or `None` if a reference no longer points to an earlier descriptor.
    pub fn edited(&self, edit: impl FnMut(&mut Node)) -> Option<Self> {
        let mut nodes = self.nodes.clone();
        nodes.iter_mut().for_each(edit);
        Graph::new(nodes).ok()
    }

    /// Returns the first 8 bytes of the SHA-256 of the JSON, as 16 hexadecimal digits.
    pub fn id(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(&json).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the index of a descriptor and of everything that it refers to.
pub(crate) fn reachable(nodes: &[Node], from: usize) -> BTreeSet<usize> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(index) = next.pop() {
        if found.insert(index) {
            let attributes = nodes.get(index).into_iter().flat_map(|node| &node.attributes);
            next.extend(attributes.flat_map(|attribute| attribute.value.places()));
        }
    }
    found
}

/// Collects descriptors without duplicates.
#[derive(Debug, Default)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
    by_text: BTreeMap<String, usize>,
}

impl GraphBuilder {
    /// Adds a descriptor whose references were added before. Returns the index for references to it.
    pub fn add(&mut self, node: Node) -> usize {
        let next = self.nodes.len();
        let place = *self.by_text.entry(serde_json::to_string(&node).unwrap_or_default()).or_insert(next);
        if place == next {
            self.nodes.push(node);
        }
        place
    }

    /// Returns the graph.
    ///
    /// # Errors
    /// See [`Graph::new`].
    pub fn finish(self) -> Result<Graph, String> {
        Graph::new(self.nodes)
    }
}

impl Node {
    /// Returns the elements of an attribute.
    pub fn value(&self, name: Name) -> Option<&Value> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
    }

    /// Returns the integers of an attribute, or an empty list if it is not set.
    pub fn integers(&self, name: Name) -> &[i64] {
        match self.value(name) {
            Some(Value::Integers(integers)) => integers,
            _ => &[],
        }
    }

    /// Returns the first float of an attribute.
    pub fn float(&self, name: Name) -> Option<f64> {
        match self.value(name) {
            Some(Value::Floats(floats)) => floats.first().copied(),
            _ => None,
        }
    }

    /// Replaces the elements of an attribute that is set.
    pub fn replace(&mut self, name: Name, value: Value) {
        if let Some(attribute) = self.attributes.iter_mut().find(|attribute| attribute.name == name) {
            attribute.value = value;
        }
    }

    /// Returns the first integer of an attribute.
    pub fn integer(&self, name: Name) -> Option<i64> {
        self.integers(name).first().copied()
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let kind = names::kind(self.kind);
        map.serialize_entry("kind", &kind)?;
        if !self.is_finalized {
            map.serialize_entry("finalized", &false)?;
        }
        for Attribute { name, ty, value } in &self.attributes {
            map.serialize_entry(&key(&kind, *name, *ty), &value.to_json())?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = Map::<String, Json>::deserialize(deserializer)?;
        let kind = map.get("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let name = kind.as_str().unwrap_or_default();
        let number = KINDS.number(name).ok_or_else(|| D::Error::custom(format!("unknown kind {}", shortened(kind))))?;
        let mut node = Node { kind: Kind(number), is_finalized: true, attributes: Vec::new() };
        for (key, json) in &map {
            match key.as_str() {
                "kind" => {}
                "finalized" => node.is_finalized = json.as_bool().unwrap_or(true),
                _ => {
                    let attribute = attribute(name, key, json);
                    node.attributes.push(
                        attribute.ok_or_else(|| {
                            D::Error::custom(format!("attribute {key} cannot be {}", shortened(json)))
                        })?,
                    );
                }
            }
        }
        Ok(node)
    }
}

/// Returns the name of an attribute without the kind's name, and the number of the type.
fn key(kind: &str, name: Name, ty: Type) -> String {
    let name = names::attribute(name);
    let short = name.strip_prefix(kind).and_then(|name| name.strip_prefix('_')).unwrap_or(&name);
    format!("{short}:{}", ty.0)
}

/// The inverse of [`key`], which also accepts full names.
fn attribute(kind: &str, key: &str, json: &Json) -> Option<Attribute> {
    let (name, ty) = key.rsplit_once(':')?;
    let number = ATTRIBUTES.number(&format!("{kind}_{name}")).or_else(|| ATTRIBUTES.number(name))?;
    let (name, ty) = (Name(number), Type(ty.parse().ok()?));
    Some(Attribute { name, ty, value: Value::from_json(ty, json)? })
}

fn shortened(json: &Json) -> String {
    json.to_string().chars().take(80).collect()
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Graph::new(Vec::<Node>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r##"[{"kind":"TENSOR","DATA_TYPE:1":2,"DIMENSIONS:3":[8,64],"UNIQUE_ID:3":1},{"kind":"OPERATION_POINTWISE","ALPHA1:5":0.1,"XDESC:15":0},{"kind":"OPERATIONGRAPH","finalized":false,"#99999:3":7,"HANDLE:0":1,"OPS:15":1}]"##;

    #[test]
    fn a_graph_equals_its_text() {
        let graph: Graph = serde_json::from_str(JSON).unwrap();
        assert_eq!(serde_json::to_string(&graph).unwrap(), JSON);
        assert_eq!(graph.operations().len(), 1);
        assert_eq!(graph.tensors().next().unwrap().integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS), [8, 64]);
        assert!(!graph.root().unwrap().is_finalized);
        let other: Graph = serde_json::from_str(&JSON.replace("[8,64]", "[8,65]")).unwrap();
        assert_ne!(graph.id(), other.id());
        assert_eq!(graph.id().len(), 16);
    }

    #[test]
    fn each_attribute_has_its_own_key_in_each_kind() {
        for (kind, _) in Kind::ENUMERATORS {
            let kind = KINDS.name(i64::from(kind.0) as u32);
            for (name, _) in Name::ENUMERATORS {
                let read = attribute(&kind, &key(&kind, *name, Type::CUDNN_TYPE_INT64), &Json::from(1));
                assert_eq!(read.map(|attribute| attribute.name), Some(*name), "{kind} {name:?}");
            }
        }
    }

    /// A short text can describe millions of operations.
    #[test]
    fn repeated_references_are_limited() {
        let graph = |count: usize| {
            let pointwise = r#"{"kind":"OPERATION_POINTWISE"}"#;
            let operations = vec!["0"; count].join(",");
            format!(r#"[{pointwise},{{"kind":"OPERATIONGRAPH","OPS:15":[{operations}]}}]"#)
        };
        assert_eq!(serde_json::from_str::<Graph>(&graph(MAX_REFERENCES)).unwrap().operations().len(), MAX_REFERENCES);
        let error = serde_json::from_str::<Graph>(&graph(MAX_REFERENCES + 1)).unwrap_err().to_string();
        assert!(error.contains("a graph has 200001 references; at most 200000 are allowed"), "{error}");
    }

    #[test]
    fn invalid_graphs_are_refused() {
        for (json, reason) in [
            ("[]", "0 descriptors"),
            (r#"[{"kind":"NO_SUCH_KIND"}]"#, "unknown kind"),
            (r#"[{"TENSOR_UNIQUE_ID:3":1}]"#, "missing field `kind`"),
            (r#"[{"kind":"TENSOR","NO_SUCH_NAME:3":1}]"#, "NO_SUCH_NAME"),
            (r#"[{"kind":"TENSOR","TENSOR_UNIQUE_ID:3":"x"}]"#, "cannot be"),
            (r#"[{"kind":"TENSOR","TENSOR_UNIQUE_ID:6":1}]"#, "cannot be"),
            (r#"[{"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":0}]"#, "does not precede"),
            (r#"[{"kind":"TENSOR","TENSOR_DATA_TYPE:1":4294967296}]"#, "cannot be"),
        ] {
            let error = serde_json::from_str::<Graph>(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}

//! Brings graphs into a form that depends only on what cuDNN compiles.

use std::collections::BTreeMap;

use cudnn_sys::types::cudnnBackendAttributeName_t as Name;

use crate::graph::{Attribute, Graph, GraphBuilder, Node, reachable};
use crate::value::Value;

impl Graph {
    /// Returns an equivalent graph that is independent of the device, of the order of attributes and descriptors, and
    /// of repeated descriptors.
    ///
    /// # Errors
    /// See [`Graph::new`].
    pub fn canonical(&self) -> Result<Graph, String> {
        let nodes: Vec<Node> = self.nodes().iter().map(without_device).collect();
        let mut by_level = BTreeMap::<_, Vec<usize>>::new();
        let levels = levels(&nodes);
        for place in reachable(&nodes, nodes.len().saturating_sub(1)) {
            by_level.entry(levels.get(place)).or_default().push(place);
        }
        let (mut builder, mut places) = (GraphBuilder::default(), vec![0; nodes.len()]);
        // Descriptors refer only to lower levels, whose order is known.
        for level in by_level.values() {
            let mut by_text = Vec::with_capacity(level.len());
            for place in level {
                let Some(mut node) = nodes.get(*place).cloned() else { continue };
                for child in node.attributes.iter_mut().flat_map(children_mut) {
                    *child = places.get(*child).copied().unwrap_or(*child);
                }
                by_text.push((serde_json::to_string(&node).unwrap_or_default(), *place, node));
            }
            by_text.sort_by(|(one, ..), (other, ..)| one.cmp(other));
            for (_, place, node) in by_text {
                if let Some(to) = places.get_mut(place) {
                    *to = builder.add(node);
                }
            }
        }
        builder.finish()
    }
}

/// Removes the attributes that select the device, and sorts the others by number.
fn without_device(node: &Node) -> Node {
    let mut node = node.clone();
    node.attributes.retain(|attribute| {
        let is_device = matches!(
            attribute.name,
            Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP
                | Name::CUDNN_ATTR_ENGINE_DEVICEPROP
                | Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP
        );
        !is_device && !matches!(attribute.value, Value::Handles(_))
    });
    node.attributes.sort_by_key(|attribute| attribute.name.0);
    node
}

/// Returns the level of each descriptor. A descriptor is one level above the descriptors that it refers to.
fn levels(nodes: &[Node]) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let below = node.attributes.iter().flat_map(|attribute| attribute.value.places());
        let highest = below.filter_map(|child| levels.get(*child)).max().copied();
        levels.push(highest.unwrap_or(0) + 1);
    }
    levels
}

fn children_mut(attribute: &mut Attribute) -> impl Iterator<Item = &mut usize> {
    let children = if let Value::Nodes(children) = &mut attribute.value { children.as_mut_slice() } else { &mut [] };
    children.iter_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn canonical(json: &str) -> String {
        let graph: Graph = serde_json::from_str(json).unwrap();
        serde_json::to_string(&graph.canonical().unwrap()).unwrap()
    }

    #[test]
    fn order_sharing_and_device_do_not_count() {
        let one = canonical(
            r#"[{"kind":"TENSOR","UNIQUE_ID:3":2,"DATA_TYPE:1":0},{"kind":"TENSOR","UNIQUE_ID:3":1},
                {"kind":"OPERATION_POINTWISE","XDESC:15":0,"BDESC:15":0,"YDESC:15":1},
                {"kind":"OPERATIONGRAPH","HANDLE:0":1,"OPS:15":2}]"#,
        );
        let other = canonical(
            r#"[{"kind":"TENSOR","UNIQUE_ID:3":1},{"kind":"TENSOR","DATA_TYPE:1":0,"UNIQUE_ID:3":2},
                {"kind":"TENSOR","UNIQUE_ID:3":7},{"kind":"TENSOR","UNIQUE_ID:3":2,"DATA_TYPE:1":0},
                {"kind":"OPERATION_POINTWISE","YDESC:15":0,"XDESC:15":1,"BDESC:15":3},
                {"kind":"OPERATIONGRAPH","OPS:15":4}]"#,
        );
        assert_eq!(one, other);
        assert_eq!(one.matches("TENSOR").count(), 2, "{one}");
        let different = r#"[{"kind":"TENSOR","UNIQUE_ID:3":2},{"kind":"TENSOR","UNIQUE_ID:3":1},
            {"kind":"OPERATION_POINTWISE","XDESC:15":0,"BDESC:15":1,"YDESC:15":1},{"kind":"OPERATIONGRAPH","OPS:15":2}]"#;
        assert_ne!(one, canonical(different));
        let plan = r#"[{"kind":"DEVICEPROP","HANDLE:0":1},{"kind":"EXECUTION_PLAN","HANDLE:0":1,"DEVICEPROP:15":0}]"#;
        assert_eq!(canonical(plan), r#"[{"kind":"EXECUTION_PLAN"}]"#);
    }
}

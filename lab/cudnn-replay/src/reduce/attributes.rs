//! Removes padding, dilation, the steps of filters, and scales.

use cudnn_graph::edit::Edit;
use cudnn_graph::{Attribute, Graph, Value, names};
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type};

use super::SmallerGraph;
use super::extents::adjust_convolutions;

const ARRAYS: [(Name, i64); 4] = [
    (Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0),
    (Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0),
    (Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, 1),
    (Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1),
];

pub(super) fn candidates(graph: &Graph) -> Vec<SmallerGraph> {
    let edit = Edit::new(graph);
    let mut candidates = Vec::new();
    for (name, number) in ARRAYS {
        let mut changed = edit.clone();
        for node in 0..edit.nodes.len() {
            let length = edit.integers(node, name).len();
            changed.replace(node, name, vec![number; length]);
        }
        let finished = adjust_convolutions(changed, graph).finish();
        candidates.extend(
            finished.map(|graph| SmallerGraph { graph, change: format!("{} {number}", names::attribute(name)) }),
        );
    }
    for (place, node) in edit.nodes.iter().enumerate() {
        for attribute in &node.attributes {
            let name = names::attribute(attribute.name);
            let number = match (name.contains("ALPHA"), name.ends_with("_BETA")) {
                (true, _) => 1.0,
                (_, true) => 0.0,
                _ => continue,
            };
            let Some(value) = scale(attribute, number) else { continue };
            let mut changed = edit.clone();
            changed.replace_value(place, attribute.name, value);
            candidates.extend(changed.finish().map(|graph| SmallerGraph { graph, change: format!("{name} {number}") }));
        }
    }
    candidates
}

fn scale(attribute: &Attribute, number: f64) -> Option<Value> {
    match attribute.ty {
        Type::CUDNN_TYPE_FLOAT | Type::CUDNN_TYPE_DOUBLE => Some(Value::Floats(vec![number])),
        _ => None,
    }
}

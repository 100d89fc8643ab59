//! Reads the process-independent part of a plan's key, to build the plan again for another device or release.

use std::path::Path;

use cudnn_graph::{Attribute, Graph, Node, Value};
use serde::{Deserialize, Serialize};

use super::bytes::KeyBytes;
use super::variables::Variables;
use super::{device, environment as process};
use crate::shadow::elements::{Kind, Name, Type};

/// The inputs of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    /// The canonical graph: see [`Graph::canonical`].
    pub graph: Graph,
    /// The attributes that the program set in the plan, its configuration, and the engine or heuristics.
    pub levels: Vec<Graph>,
    /// The engine's index.
    pub engine: i64,
    /// The maximum number of multiprocessors, if limited.
    pub multiprocessors: Option<i32>,
    /// The engine's knobs, as pairs of type and value.
    pub knobs: Vec<(u32, i64)>,
}

/// The first bytes of every key, which change with the format.
const FORMAT: &[u8] = b"cudnn plan 3";

impl Recorded {
    /// Parses a key, or returns `None` for a key from an incompatible release of this crate.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let (format, rest) = block(key)?;
        if format != FORMAT {
            return None;
        }
        let (_environment, rest) = block(rest)?;
        let (_device, rest) = block(rest)?;
        serde_json::from_slice(rest).ok()
    }

    /// Returns a plan with this engine and these knobs for the graph.
    ///
    /// # Errors
    /// See [`Graph::new`].
    pub fn plan(&self) -> Result<Graph, String> {
        let mut nodes = self.graph.nodes().to_vec();
        let mut add = |kind, attributes| {
            nodes.push(Node { kind, is_finalized: true, attributes });
            Value::Nodes(vec![nodes.len() - 1])
        };
        let graph = Value::Nodes(vec![self.graph.nodes().len().saturating_sub(1)]);
        let number = |number: i64| Value::Integers(vec![number]);
        let mut engine = vec![
            attribute(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, DESCRIPTOR, graph),
            attribute(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, number(self.engine)),
        ];
        engine.extend(self.multiprocessors.map(|limit| {
            let limit = number(limit.into());
            attribute(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, Type::CUDNN_TYPE_INT32, limit)
        }));
        // Other attributes that the program set.
        let is_engine = |node: &&Node| node.kind == Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR;
        let set = self.levels.iter().filter_map(Graph::root).find(is_engine);
        for other in set.iter().flat_map(|node| &node.attributes) {
            if engine.iter().all(|known| known.name != other.name) && other.value.places().is_empty() {
                engine.push(other.clone());
            }
        }
        let engine = add(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine);
        let choices = self.knobs.iter().map(|(knob, value)| {
            vec![
                attribute(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, number((*knob).into())),
                attribute(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64, number(*value)),
            ]
        });
        let choices: Vec<Value> =
            choices.map(|choice| add(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, choice)).collect();
        let choices: Vec<usize> = choices.iter().flat_map(Value::places).copied().collect();
        let mut configuration = vec![attribute(Name::CUDNN_ATTR_ENGINECFG_ENGINE, DESCRIPTOR, engine)];
        if !choices.is_empty() {
            configuration.push(attribute(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, DESCRIPTOR, Value::Nodes(choices)));
        }
        let configuration = add(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, configuration);
        let plan = attribute(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, DESCRIPTOR, configuration);
        add(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, vec![plan]);
        Graph::new(nodes)
    }

    /// Returns the key of the plan for cuDNN's JSON description of a device and an [`environment`].
    pub fn key_for(&self, environment: &[u8], device_description: &[u8]) -> Vec<u8> {
        let mut bytes = KeyBytes::default();
        bytes.block(FORMAT);
        bytes.block(environment);
        bytes.block(&device::canonical(device_description));
        bytes.0.extend(serde_json::to_vec(self).unwrap_or_default());
        bytes.0
    }
}

const DESCRIPTOR: Type = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;

fn attribute(name: Name, ty: Type, value: Value) -> Attribute {
    Attribute { name, ty, value }
}

fn block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

/// Describes the inputs that all plans of this process share: the release from `cudnnGetVersion`, the builds of the
/// libraries in cuDNN's directory, and the variables that affect compiled code.
///
/// # Errors
/// Names the directory or library that cannot be read.
pub fn environment(cudnn_version: u32, cudnn_dir: &Path) -> Result<Vec<u8>, String> {
    process::describe(cudnn_version, cudnn_dir, &Variables::now())
}

/// Returns the device name in a JSON description.
pub fn device_name(description: &[u8]) -> String {
    device::name(description)
}

//! Builds the cache key of a plan from all inputs of the plan, which [`Key::new`] lists.

use std::borrow::Cow;
use std::sync::Arc;

use cudnn_graph::Graph;
use serde_json::Value;

use super::configuration::Configuration;
use super::graph_json;
use super::recorded::Recorded;
use crate::cudnn::Cudnn;
use crate::shadow::content::Content;
use crate::shadow::devices::{ReferencedDevice, devices};
use crate::shadow::elements::Name;
use crate::shadow::handles::{self, Handle};
use crate::shadow::{self, UNSEEN};

/// Why a plan is not cached.
pub(super) type NotCached = Cow<'static, str>;

pub(super) const NO_CONFIGURATION: NotCached =
    Cow::Borrowed("cuDNN did not return the engine configuration with its graph");
const NO_DEVICE: NotCached = Cow::Borrowed("neither the plan nor the graph has a handle with a device description");
const DEVICES: NotCached = Cow::Borrowed("the device of the plan is ambiguous");

#[derive(Clone, Debug)]
pub(super) enum DeviceSource {
    Handle(Handle),
    /// A device that the program describes, and that may be absent here.
    Described,
}

pub(super) struct Key {
    pub(super) bytes: Vec<u8>,
    pub(super) target: DeviceSource,
    pub(super) handles: Vec<Handle>,
    pub(super) device: Arc<[u8]>,
    /// cuDNN's JSON for the graph. It is not part of the key, but a cached plan must contain the same graph.
    pub(super) graph: Value,
    pub(super) engine: i64,
}

const MAX_LEVELS: usize = 32;

impl Key {
    /// Creates the key from, in this order: the environment; the device without bus ID and index; the graph, operations
    /// and tensors; the attributes that the program set in the plan, the configuration, the engine and the heuristics;
    /// and the engine and knobs that cuDNN reports. Returns an error if any part is uncertain.
    pub(super) fn new(
        cudnn: &Cudnn,
        environment: &[u8],
        plan: &Arc<Content>,
        configuration: &Configuration,
    ) -> Result<Key, NotCached> {
        for attribute in &plan.attributes {
            match attribute.name {
                Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG
                | Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE
                | Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP => {}
                name => return Err(format!("the attribute {name:?} of the plan is not supported").into()),
            }
        }
        let graph = shadow::graph_of(plan).ok_or(UNSEEN)?;
        if graph.number(Name::CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED).is_some_and(|is| is != 0) {
            return Err("the graph has dynamic shapes".into());
        }
        let mut recorded = Recorded {
            graph: canonical(graph)?,
            levels: Vec::new(),
            engine: configuration.engine,
            multiprocessors: configuration.multiprocessors,
            knobs: configuration.knobs.clone(),
        };
        let mut level = plan;
        while !Arc::ptr_eq(level, graph) {
            if recorded.levels.len() >= MAX_LEVELS {
                return Err(UNSEEN);
            }
            recorded.levels.push(canonical(&Arc::new(settings(level)))?);
            level = shadow::toward_graph(level).ok_or(UNSEEN)?;
        }
        let stated = graph_json::parse(&configuration.graph).ok_or(NO_CONFIGURATION)?;
        let devices = devices(plan);
        let (target, device) = target(cudnn, &devices)?;
        let handle = |device: &ReferencedDevice| {
            if let ReferencedDevice::Handle(handle) = device { Some(*handle) } else { None }
        };
        let handles = devices.iter().filter_map(handle).collect();
        let bytes = recorded.key_for(environment, &device);
        Ok(Key { bytes, target, handles, device, graph: stated, engine: configuration.engine })
    }
}

/// Returns the graph of a descriptor without the device.
fn canonical(content: &Arc<Content>) -> Result<Graph, NotCached> {
    let graph = shadow::graph(content)?;
    match graph.nodes().iter().map(|node| node.kind).find(|kind| kind.name().is_none()) {
        // The kind is newer than these bindings.
        Some(kind) => Err(format!("{kind:?} is unknown to this layer").into()),
        None => graph.canonical().map_err(|_| shadow::too_many()),
    }
}

/// Returns the attributes that the program set at one level, without the device and references to lower levels, which
/// the key contains separately. The heuristics mode is omitted because only the chosen engine affects the plan.
fn settings(content: &Content) -> Content {
    content.without(&[
        Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
        Name::CUDNN_ATTR_ENGINECFG_ENGINE,
        Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
        Name::CUDNN_ATTR_ENGINEHEUR_MODE,
        Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
        Name::CUDNN_ATTR_ENGINE_DEVICEPROP,
        Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
    ])
}

/// Returns the device, if all levels refer to the same one. The plan's own handle comes first.
fn target(cudnn: &Cudnn, devices: &[ReferencedDevice]) -> Result<(DeviceSource, Arc<[u8]>), NotCached> {
    let mut found: Option<(DeviceSource, Arc<[u8]>)> = None;
    for device in devices {
        let (target, text) = match device {
            ReferencedDevice::Handle(handle) if handles::living(handle.address) == *handle => {
                (DeviceSource::Handle(*handle), cudnn.device_of(*handle).ok_or(NO_DEVICE)?)
            }
            ReferencedDevice::Handle(_) => return Err(DEVICES),
            ReferencedDevice::Described(text) => (DeviceSource::Described, text.as_slice().into()),
            ReferencedDevice::DescribedByHandle(_) | ReferencedDevice::Unknown => return Err(NO_DEVICE),
        };
        match &found {
            Some((_, known)) if *known != text => return Err(DEVICES),
            Some((DeviceSource::Handle(_), _)) => {}
            _ => found = Some((target, text)),
        }
    }
    found.ok_or(NO_DEVICE)
}

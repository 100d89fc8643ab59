//! All that a plan depends on, as bytes: equal bytes are the same plan. See [`Key::new`] for what they have.

use std::fmt;
use std::sync::Arc;

use super::configuration::Configuration;
use super::cudnn::Cudnn;
use super::device;
use crate::shadow;
use crate::shadow::canonical::{Bytes, Canonical, Device, Obstacle};
use crate::shadow::content::Content;
use crate::shadow::elements::Name;
use crate::shadow::handles::{self, Handle};

/// Why a plan is neither looked up nor kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NotKept {
    /// A part of the graph or the configuration is not understood.
    Unclear(Obstacle),
    /// cuDNN does not state what the configuration is.
    Configuration,
    /// An attribute of the plan with which this layer does not deal.
    PlanAttribute(Name),
    /// The plan that cuDNN has made states another graph, or another device, than this layer has seen.
    StatesOther,
    /// Its code serves other shapes too, and cuDNN keeps it itself.
    DynamicShapes,
    /// The graph has no handle and no described device.
    NoDevice,
    /// It names several devices, or a handle that was destroyed.
    Devices,
    /// A call went to cuDNN past this layer.
    MissedCalls,
    /// A variable that matters has changed since cuDNN was loaded, which reads each at a time of its own.
    Variables,
    /// cuDNN was loaded before the loader knew of this layer, perhaps with other variables.
    LoadedBefore,
    /// There is no place for plans, or cuDNN's files cannot be read.
    NoStore,
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotKept::Unclear(obstacle) => obstacle.fmt(f),
            NotKept::Configuration => f.write_str("cuDNN does not state what the engine configuration is"),
            NotKept::PlanAttribute(name) => write!(f, "the plan has {name:?}"),
            NotKept::StatesOther => f.write_str("cuDNN states another graph or device in the plan"),
            NotKept::DynamicShapes => f.write_str("the graph has dynamic shapes"),
            NotKept::NoDevice => f.write_str("neither the plan nor the graph has a handle that cuDNN describes"),
            NotKept::Devices => f.write_str("it is not clear which device the plan is for"),
            NotKept::Variables => f.write_str("variables of the environment have changed since cuDNN was loaded"),
            NotKept::LoadedBefore => f.write_str(
                "libcudnn_graph was loaded before the layer was added, and may have read other variables of the environment",
            ),
            NotKept::NoStore => f.write_str("the store or cuDNN's files cannot be used"),
            NotKept::MissedCalls => f.write_str("a call has gone to cuDNN past this layer"),
        }
    }
}

impl From<Obstacle> for NotKept {
    fn from(obstacle: Obstacle) -> Self {
        NotKept::Unclear(obstacle)
    }
}

/// The device for which a plan is made, and to which it is restored.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// That of a handle.
    Handle(Handle),
    /// One that the program describes, and that need not be in this machine.
    Described,
}

/// What a plan depends on.
pub(super) struct Key {
    pub(super) bytes: Vec<u8>,
    pub(super) target: Target,
    /// The handles that the program named, which are alive.
    pub(super) handles: Vec<Handle>,
    /// The device in JSON.
    pub(super) device: Arc<[u8]>,
    /// The graph.
    pub(super) graph: Arc<Content>,
    /// The number of the engine.
    pub(super) engine: i64,
}

/// Begins every key. It changes when what follows is written in another way.
pub(super) const FORMAT: &[u8] = b"cudnn plan 2";

/// The levels between a plan and its graph: more than heuristics, configurations and engines give.
const MAX_LEVELS: usize = 32;

impl Key {
    /// In order: the environment; the device, but not its place in the machine; the graph with its operations and
    /// tensors; what the program set in the plan, the configuration, the engine and the heuristics above it; the engine
    /// and its knobs as cuDNN states them.
    ///
    /// # Errors
    /// If a part is not known for certain.
    pub(super) fn new(
        cudnn: &Cudnn,
        environment: &[u8],
        plan: &Arc<Content>,
        configuration: &Configuration,
    ) -> Result<Key, NotKept> {
        for attribute in &plan.attributes {
            match attribute.name {
                Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG
                | Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE
                | Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP => {}
                name => return Err(NotKept::PlanAttribute(name)),
            }
        }
        let unseen = NotKept::Unclear(Obstacle::Unseen);
        let graph = shadow::graph_of(plan).ok_or(unseen)?;
        if graph.number(Name::CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED).is_some_and(|is| is != 0) {
            return Err(NotKept::DynamicShapes);
        }
        let mut canonical = Canonical::default();
        let graph_number = canonical.add(graph)?;
        let mut levels = Vec::new();
        let mut level = plan;
        while !Arc::ptr_eq(level, graph) {
            if levels.len() >= MAX_LEVELS {
                return Err(unseen);
            }
            levels.push(canonical.add(&Arc::new(settings(level)))?);
            level = shadow::toward_graph(level).ok_or(unseen)?;
        }
        let (target, device) = target(cudnn, plan, &canonical.devices)?;
        let handle = |device: &Device| if let Device::Handle(handle) = device { Some(*handle) } else { None };
        let handles = canonical.devices.iter().filter_map(handle).collect();

        let mut bytes = Bytes::default();
        bytes.block(FORMAT);
        bytes.block(environment);
        bytes.block(&device::canonical(&device));
        canonical.write(&mut bytes);
        bytes.number(graph_number);
        bytes.number(levels.len() as u32);
        levels.iter().for_each(|level| bytes.number(*level));
        configuration.write(&mut bytes);
        Ok(Key { bytes: bytes.0, target, handles, device, graph: graph.clone(), engine: configuration.engine() })
    }
}

/// What the program set, without the levels below, which the key has elsewhere. The mode of the heuristics says how
/// they chose, and nothing of what they chose.
fn settings(content: &Content) -> Content {
    content.without(&[
        Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
        Name::CUDNN_ATTR_ENGINECFG_ENGINE,
        Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
        Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
        Name::CUDNN_ATTR_ENGINEHEUR_MODE,
    ])
}

/// The one device that all levels name.
fn target(cudnn: &Cudnn, plan: &Content, devices: &[Device]) -> Result<(Target, Arc<[u8]>), NotKept> {
    let mut found: Option<(Target, Arc<[u8]>)> = None;
    for device in devices {
        let (target, text) = match device {
            Device::Handle(handle) if handles::living(handle.address) == *handle => {
                let text = device::of_handle(cudnn, *handle).ok_or(NotKept::NoDevice)?;
                (Target::Handle(*handle), text)
            }
            Device::Handle(_) => return Err(NotKept::Devices),
            Device::Described(Some(text)) => {
                // The program may have counted the NUL behind it.
                let len = text.as_slice().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                (Target::Described, text.as_slice().get(..len).unwrap_or_default().into())
            }
            Device::Described(None) => return Err(NotKept::NoDevice),
        };
        match &found {
            Some((_, known)) if *known != text => return Err(NotKept::Devices),
            Some((Target::Handle(_), _)) => {}
            _ => found = Some((target, text)),
        }
    }
    let (target, text) = found.ok_or(NotKept::NoDevice)?;
    let own = plan.elements(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    let own = own.and_then(|own| Handle::all_in(own.as_slice()).next()).map(Target::Handle);
    Ok((own.unwrap_or(target), text))
}

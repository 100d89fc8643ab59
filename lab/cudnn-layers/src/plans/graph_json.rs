//! Reads a graph from cuDNN as JSON, in the format of the graphs in plans.
//!
//! cuDNN does not return the operations of a graph. However, an empty kernel cache, which is created in microseconds,
//! contains the JSON of its graph.

use std::collections::BTreeMap;

use cudnn_sys::types::cudnnStatus_t as Status;
use serde_json::Value;

use crate::cudnn::Descriptor;
use crate::json::parsed;
use crate::shadow::elements::{Kind, Name, Type};

/// Returns the JSON of an engine's graph, for [`parse`].
pub(super) fn read(engine: &Descriptor<'_>) -> Result<Vec<u8>, Status> {
    let (name, kind) = (Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    engine.with_child(name, kind, |graph| {
        engine.cudnn.with_descriptor(Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR, |cache| {
            let (name, ty) = (Name::CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
            cache.set(name, ty, &[graph.raw()])?;
            cache.finalize()?;
            cache.text(Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION)
        })
    })
}

pub(super) fn parse(json: &[u8]) -> Option<Value> {
    let mut members: BTreeMap<String, Value> = parsed(json)?;
    members.remove("operationGraph")
}

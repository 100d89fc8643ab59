//! Reads a graph from cuDNN as JSON, in the format in which plans contain their graphs.
//!
//! cuDNN does not return the operations of a graph. However, a kernel cache that was created for a graph contains the
//! JSON of the graph, and an empty one is created in microseconds.

use std::collections::BTreeMap;

use cudnn_sys::types::cudnnStatus_t as Status;
use serde_json::Value;

use crate::cudnn::{Cudnn, LayerDescriptor, UNCLEAR};
use crate::json::parsed;
use crate::shadow::elements::{Kind, Name, Type};

/// Returns the JSON of an engine's graph, which [`parse`] reads.
///
/// # Errors
/// Returns the status if cuDNN does not provide the graph.
pub(super) fn read(cudnn: &Cudnn, engine: &LayerDescriptor<'_>) -> Result<Vec<u8>, Status> {
    const TYPE: Type = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    cudnn.with_descriptor(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, |graph| {
        let mut to = [graph.raw()];
        if engine.read(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, TYPE, &mut to)? != 1 {
            return Err(UNCLEAR);
        }
        cudnn.with_descriptor(Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR, |cache| {
            cache.set(Name::CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, TYPE, &to)?;
            cache.finalize()?;
            cache.text(Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION)
        })
    })
}

/// Returns the graph in the JSON of a kernel cache.
pub(super) fn parse(json: &[u8]) -> Option<Value> {
    let mut members: BTreeMap<String, Value> = parsed(json)?;
    members.remove("operationGraph")
}

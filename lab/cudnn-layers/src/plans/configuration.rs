//! Reads an engine configuration from cuDNN: the graph, the engine, the knobs, and whether it compiles code.

use cudnn_sys::types::cudnnStatus_t as Status;

use super::graph_json;
use crate::cudnn::Descriptor;
use crate::engine::{compiles_code, index, knobs, with_engine};
use crate::shadow::elements::{Name, Type};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) graph: Vec<u8>,
    pub(super) engine: i64,
    /// The maximum number of multiprocessors, if limited.
    pub(super) multiprocessors: Option<i32>,
    /// Knob types and values, sorted by type.
    pub(super) knobs: Vec<(u32, i64)>,
}

impl Configuration {
    /// Reads a configuration of the program. Returns `Ok(None)` if the engine compiles no code, because building such a
    /// plan is faster than restoring it.
    pub(super) fn read(configuration: &Descriptor<'_>) -> Result<Option<Self>, Status> {
        let engine = with_engine(configuration, |engine| {
            if !compiles_code(engine)? {
                return Ok(None);
            }
            let limit = engine.single(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, Type::CUDNN_TYPE_INT32).ok();
            Ok(Some((graph_json::read(engine)?, index(engine)?, limit)))
        })?;
        let Some((graph, engine, multiprocessors)) = engine else { return Ok(None) };
        Ok(Some(Configuration { graph, engine, multiprocessors, knobs: knobs(configuration)? }))
    }
}

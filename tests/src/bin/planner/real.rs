//! Builds plans of a real cuDNN for described devices.

use std::time::Instant;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{configuration, engine};
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
};

/// Builds plans with this engine, and prints a description and the time for every plan.
pub(crate) fn run(engine: i64, devices: &[String]) {
    for (number, file) in devices.iter().enumerate() {
        let Ok(json) = std::fs::read_to_string(file) else {
            println!("cannot read {file}");
            continue;
        };
        for (channels, data_type) in
            [(16, DataType::CUDNN_DATA_HALF), (32, DataType::CUDNN_DATA_HALF), (16, DataType::CUDNN_DATA_BFLOAT16)]
        {
            // The layer builds the plan when the program reads the configuration.
            let asks = number == 0 && channels == 32;
            let start = Instant::now();
            let planned = plan(&json, engine, channels, data_type, asks);
            let took = start.elapsed().as_millis();
            let shown = planned.unwrap_or_else(|error| format!("failed: {:?}", error.status));
            println!("device {number}, {channels} channels, {data_type:?}: {shown}; {took} ms");
        }
    }
}

pub(crate) fn convolution(channels: i64, data_type: DataType) -> Result<Descriptor, Error> {
    let tensor = |uid, dims: &[i64]| Tensor::channels_last(uid, data_type, dims);
    let x = tensor(1, &[4, channels, 14, 14]);
    let (w, y) = (tensor(2, &[32, channels, 3, 3]), tensor(3, &[4, 32, 14, 14]));
    graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])
}

fn plan(json: &str, index: i64, channels: i64, data_type: DataType, asks: bool) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let target = Target::Device(&device);
    let plan = Plan::new(&configuration(&engine(&convolution(channels, data_type)?, index, target)?, &[])?, target)?;
    let text = plan.descriptor.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
    let engine = if asks { engine_index(&plan.descriptor)? } else { None };
    let hash = text.iter().fold(5381_u64, |hash, byte| hash.wrapping_mul(33) ^ u64::from(*byte));
    Ok(format!("workspace {}, engine {engine:?}, JSON of {} bytes {hash:x}", plan.workspace_size, text.len()))
}

fn engine_index(plan: &Descriptor) -> Result<Option<i64>, Error> {
    let name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
    let asked = plan.descriptors_up_to(name, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 1)?;
    let Some(asked) = asked.first() else { return Ok(None) };
    let engines =
        asked.descriptors_up_to(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)?;
    engines.first().map(|engine| engine.number(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)).transpose()
}

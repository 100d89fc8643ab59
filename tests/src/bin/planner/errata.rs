//! Tries engines for several convolutions on a described device, and prints the statuses and error texts.

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{ConfigurationInfo, can_try_every_engine, configuration, proposals, supporting_engines};
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::tensor::Tensor;
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnDataType_t as DataType, cudnnStatus_t,
};

/// The maximum number of plans for each graph, because cuDNN compiles some of them.
const MAX_PLANS: usize = 2;

/// Prints the convolution, the engine and the result of each plan.
pub(crate) fn run(device: &str) {
    let json = std::fs::read_to_string(device).unwrap_or_default();
    for (spatial, data_type) in
        [(2, DataType::CUDNN_DATA_BFLOAT16), (3, DataType::CUDNN_DATA_BFLOAT16), (3, DataType::CUDNN_DATA_FLOAT)]
    {
        let name = format!("{spatial}-d {data_type:?}");
        match plans(&json, spatial, data_type) {
            Ok(results) => results.iter().for_each(|result| println!("{name}: {result}")),
            Err(error) => println!("{name}: no plan: {error}"),
        }
    }
}

fn plans(json: &str, spatial: usize, data_type: DataType) -> Result<Vec<String>, Error> {
    let device = device::from_json(json)?;
    let target = Target::Device(&device);
    let extents = |two: [i64; 2], size: i64| [two.to_vec(), vec![size; spatial]].concat();
    let tensor = |uid, dims: &[i64]| Tensor::channels_last(uid, data_type, dims);
    let (x, w) = (tensor(1, &extents([4, 16], 14)), tensor(2, &extents([32, 16], 3)));
    let y = tensor(3, &extents([4, 32], 14));
    let graph = graph(None, &[&Convolution::padded(1, spatial).forward([&x, &w, &y], 1.0, 0.0)?])?;
    let mut configurations = proposals(&graph, Mode::CUDNN_HEUR_MODE_A, target).unwrap_or_default();
    // A JIT-only release has no heuristics.
    if configurations.is_empty() && can_try_every_engine() {
        let engines = supporting_engines(&graph, target)?;
        configurations.extend(engines.filter_map(|engine| configuration(&engine, &[]).ok()));
    }
    configurations.iter().take(MAX_PLANS).map(|configuration| attempt(configuration, &device)).collect()
}

/// Finalizes a plan, and once more if that fails. Returns the engine, the knobs and notes, and the results.
fn attempt(configuration: &Descriptor, device: &Descriptor) -> Result<String, Error> {
    let info = ConfigurationInfo::new(configuration)?;
    let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?
        .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device])?;
    let mut results = Vec::new();
    for _ in 0..2 {
        // SAFETY: the descriptor is live.
        let status = unsafe { cudnn_loader::cudnnBackendFinalize(plan.raw()) };
        let mut text = [0_u8; 4096];
        // SAFETY: the buffer has this size.
        unsafe { cudnn_loader::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        results.push(format!("{status:?} {}", String::from_utf8_lossy(text)));
        if status == cudnnStatus_t::CUDNN_STATUS_SUCCESS {
            break;
        }
    }
    Ok(format!("{}, notes {}: {}", info.engine_text(), info.notes_text(), results.join("; again: ")))
}

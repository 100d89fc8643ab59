//! Combines descriptors incorrectly: graphs, heuristics, engines, plans and variant packs.

use std::ffi::c_void;
use std::ptr::null;

use cudnn_backend::cudnn::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnDataType_t as DataType,
};
use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{can_load_cublas_lt, engine, proposals};
use cudnn_backend::graph::{add, graph, relu};
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;

use super::attributes::{forward, w, x, y};
use super::{ACCEPTED, Mistake, Verdict};

const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;
const HALF: DataType = DataType::CUDNN_DATA_HALF;

pub(crate) const MISTAKES: &[Mistake] = &[
    ("a graph without operations", empty_graph),
    ("the operations of a graph as `CUDNN_TYPE_VOID_PTR`", void_operations),
    ("two tensors with the same id", duplicate_id),
    ("a virtual tensor that no operation writes", virtual_input),
    ("the graph has no output: y is virtual", virtual_output),
    ("data types that no engine supports: the filter in half, the rest in float", unsupported_types),
    ("the operations are not connected: different ids for the tensor between them", disconnected),
    ("a bias of the wrong shape", wrong_bias),
    ("heuristics without a device, and without a handle in the graph", no_handle),
    ("an engine index that is too large", engine_out_of_range),
    ("a plan without a configuration", plan_without_configuration),
    ("a variant pack with fewer pointers than ids", fewer_pointers),
    ("the ids of a variant pack as int32", int32_ids),
    ("a device description that is not JSON", device_is_not_json),
];

fn accepted(descriptor: Descriptor) -> Verdict {
    drop(descriptor);
    Ok(ACCEPTED)
}

fn empty_graph() -> Verdict {
    graph(None, &[]).and_then(accepted)
}

fn void_operations() -> Verdict {
    let operation = forward(&x(), &w(), &y())?;
    Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[operation.raw().cast::<c_void>().cast_const()])
        .and_then(accepted)
}

fn duplicate_id() -> Verdict {
    let w = Tensor { uid: 1, ..w() };
    plan(&[&forward(&x(), &w, &y())?])
}

fn virtual_input() -> Verdict {
    let x = Tensor { is_virtual: true, ..x() };
    plan(&[&forward(&x, &w(), &y())?])
}

fn virtual_output() -> Verdict {
    let y = Tensor { is_virtual: true, ..y() };
    plan(&[&forward(&x(), &w(), &y)?])
}

fn disconnected() -> Verdict {
    let (written, read) = (y().to_virtual(5, FLOAT), y().to_virtual(6, FLOAT));
    plan(&[&forward(&x(), &w(), &written)?, &relu([&read, &y()])?])
}

fn wrong_bias() -> Verdict {
    let sums = y().to_virtual(5, FLOAT);
    let bias = Tensor::packed(4, FLOAT, &[1, 16, 1, 1]);
    plan(&[&forward(&x(), &w(), &sums)?, &add([&sums, &bias, &y()])?])
}

fn unsupported_types() -> Verdict {
    let w = Tensor::packed(2, HALF, &[32, 16, 3, 3]);
    plan(&[&forward(&x(), &w, &y())?])
}

fn no_handle() -> Verdict {
    let graph = graph(None, &[&forward(&x(), &w(), &y())?])?;
    Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[&graph])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[Mode::CUDNN_HEUR_MODE_A])?
        .finalize()
        .and_then(accepted)
}

fn engine_out_of_range() -> Verdict {
    let device = device::from_json(device::H200)?;
    let graph = graph(None, &[&forward(&x(), &w(), &y())?])?;
    engine(&graph, 1_000_000, Target::Device(&device)).and_then(accepted)
}

fn plan_without_configuration() -> Verdict {
    Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?.finalize().and_then(accepted)
}

fn fewer_pointers() -> Verdict {
    let (ids, pointers) = ([1i64, 2, 3], [null::<c_void>(); 2]);
    Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[null::<c_void>()])?
        .finalize()
        .and_then(accepted)
}

fn int32_ids() -> Verdict {
    Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1i32, 2, 3])
        .and_then(accepted)
}

fn device_is_not_json() -> Verdict {
    device::from_json("an H200").and_then(accepted)
}

/// Plans the graph of these operations for a described device.
fn plan(operations: &[&Descriptor]) -> Verdict {
    let graph = graph(None, operations)?;
    // Heuristics need it too: a graph that no other engine supports reaches an engine that uses cuBLASLt.
    if !can_load_cublas_lt() {
        return Ok("not tried: cuDNN would abort, because cuBLASLt cannot be loaded");
    }
    let device = device::from_json(device::H200)?;
    let target = Target::Device(&device);
    let mut configurations = proposals(&graph, Mode::CUDNN_HEUR_MODE_A, target)?;
    configurations.extend(proposals(&graph, Mode::CUDNN_HEUR_MODE_FALLBACK, target)?);
    let mut verdict = Ok("not rejected; the heuristics propose nothing");
    for configuration in &configurations {
        match Plan::new(configuration, target) {
            Ok(_) => return Ok("not rejected; a plan can be made"),
            Err(error) => verdict = Err(error),
        }
    }
    verdict
}

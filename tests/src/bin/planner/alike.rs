//! Builds plans of a real cuDNN from identical calls that still lead to different plans, because cuDNN stores hidden
//! values in a descriptor, or adds to the values of an earlier call.
//!
//! | which | the plan of |
//! | --- | --- |
//! | `own` | an engine without knobs |
//! | `read` | that engine, read from a configuration with a knob |
//! | `relu` | a graph of one operation |
//! | `add` | that graph, after an earlier call added another operation |
//! | `tanh` | the graph of `relu`, but other code has replaced the descriptor of the mode by calling cuDNN directly |

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::{configuration, engine};
use cudnn_backend::graph::{add, relu};
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_loader::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendKnobType_t as Knob,
    cudnnDataType_t as DataType,
};

use crate::real::convolution;

pub(crate) fn run(device: &str, which: &[String]) {
    let Ok(json) = std::fs::read_to_string(device) else { return };
    for which in which {
        println!("{which}: {}", plan(&json, which).unwrap_or_else(|error| format!("failed: {error:?}")));
    }
}

fn plan(json: &str, which: &str) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let target = Target::Device(&device);
    let configuration = match which {
        "relu" | "add" => configuration(&engine(&elementwise(which == "add")?, 1, target)?, &[])?,
        "tanh" => configuration(&engine(&replaced_behind_the_layers()?, 1, target)?, &[])?,
        _ => {
            let own = engine(&convolution(16, DataType::CUDNN_DATA_HALF)?, 7, target)?;
            let with_knob = configuration(&own, &[(Knob::CUDNN_KNOB_TYPE_KERNEL_CFG, 9)])?;
            let (name, kind) = (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            let read = with_knob.descriptors_up_to(name, kind, 1)?;
            let chosen = if which == "read" { read.first().unwrap_or(&own) } else { &own };
            configuration(chosen, &[])?
        }
    };
    let plan = Plan::new(&configuration, target)?;
    let text = plan.descriptor.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
    let text = text.strip_suffix(&[0]).unwrap_or(&text);
    let json: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
    let nodes = json["operationGraph"]["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let modes: Vec<&serde_json::Value> = nodes.iter().map(|node| &node["pointwiseMode"]).collect();
    Ok(format!("{} operations {modes:?}, {}", nodes.len(), json["engine"]["knobChoices"]))
}

/// Returns the graph of y = tanh(m). The calls through the loader describe y = max(m, 0), but another descriptor has
/// taken the address of the mode's descriptor.
#[cfg(unix)]
fn replaced_behind_the_layers() -> Result<Descriptor, Error> {
    use cudnn_loader::signatures::{
        cudnnBackendCreateDescriptor as Create, cudnnBackendDestroyDescriptor as Destroy,
        cudnnBackendFinalize as Finalize, cudnnBackendSetAttribute as Set,
    };
    use cudnn_loader::{cudnnBackendAttributeType_t as Type, cudnnPointwiseMode_t as Mode, cudnnStatus_t};
    use libloading::os::unix::{Library, RTLD_LAZY};

    let pointwise = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_POINTWISE_MODE, &[Mode::CUDNN_POINTWISE_RELU_FWD])?
        .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[DataType::CUDNN_DATA_FLOAT])?
        .finalize()?;
    // SAFETY: cuDNN has loaded this library.
    let graph = unsafe { Library::open(Some("libcudnn_graph.so.9"), RTLD_LAZY) }.unwrap();
    let (mut other, (mode, precision)) =
        (std::ptr::null_mut(), (Mode::CUDNN_POINTWISE_TANH_FWD, DataType::CUDNN_DATA_FLOAT));
    // SAFETY: the functions have these types, and the arguments are valid.
    unsafe {
        let destroy = graph.get::<Destroy>(b"cudnnBackendDestroyDescriptor\0").unwrap();
        let create = graph.get::<Create>(b"cudnnBackendCreateDescriptor\0").unwrap();
        let set = graph.get::<Set>(b"cudnnBackendSetAttribute\0").unwrap();
        let finalize = graph.get::<Finalize>(b"cudnnBackendFinalize\0").unwrap();
        let statuses = [
            destroy(pointwise.raw()),
            create(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &raw mut other),
            set(other, Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE, 1, (&raw const mode).cast()),
            set(
                other,
                Name::CUDNN_ATTR_POINTWISE_MATH_PREC,
                Type::CUDNN_TYPE_DATA_TYPE,
                1,
                (&raw const precision).cast(),
            ),
            finalize(other),
        ];
        assert!(statuses.iter().copied().all(cudnnStatus_t::is_success), "{statuses:?}");
    }
    assert_eq!(other, pointwise.raw(), "the allocator has not reused the address");
    let tensor = |uid| Tensor::channels_last(uid, DataType::CUDNN_DATA_HALF, &[2, 8, 16, 16]).descriptor();
    let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&pointwise])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[&tensor(3)?])?
        .set_descriptors(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[&tensor(4)?])?
        .finalize()?;
    cudnn_backend::graph::graph(None, &[&operation])
}

/// Returns the graph of y = max(m, 0), after an optional earlier call with m = x + b.
fn elementwise(has_add: bool) -> Result<Descriptor, Error> {
    let tensor = |uid| Tensor::channels_last(uid, DataType::CUDNN_DATA_HALF, &[2, 8, 16, 16]);
    let [x, b, m, y] = [1, 2, 3, 4].map(tensor);
    let graph = Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
    let name = Name::CUDNN_ATTR_OPERATIONGRAPH_OPS;
    let graph = if has_add { graph.set_descriptors(name, &[&add([&x, &b, &m])?])? } else { graph };
    graph.set_descriptors(name, &[&relu([&m, &y])?])?.finalize()
}

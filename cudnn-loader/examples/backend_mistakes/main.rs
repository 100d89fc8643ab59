//! The mistakes that are made with the backend API, each made on purpose, with what cuDNN says of it: as the rows of a table in
//! Markdown, which `docs/backend-convolution.md` has. Needs no GPU but for those that say so.
//!
//! `cargo run -p cudnn-loader --example backend_mistakes`

use std::ffi::c_void;
use std::process::ExitCode;
use std::sync::Mutex;

use cudnn_loader as cudnn;
use cudnn_loader::logging::{Severity, set_hook};

#[path = "../backend/mod.rs"]
mod backend;
mod run;

use backend::descriptor::Descriptor;
use backend::gpu::Gpu;
use backend::graph::{Convolution, add, graph, relu};
use backend::plan::{For, Plan, described, engine, engines_can_be_walked, proposed};
use backend::tensor::Tensor;
use cudnn::cudnnBackendHeurMode_t as Mode;
use cudnn::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
};

const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;
const HALF: DataType = DataType::CUDNN_DATA_HALF;

/// What cuDNN says of it; or, where it refuses nothing, what comes of it.
type Outcome = Result<&'static str, Error>;
/// What is done, and doing it.
type Mistake = (&'static str, fn() -> Outcome);

const MISTAKES: &[Mistake] = &[
    ("the count is a number of bytes and not of elements", bytes_for_count),
    ("dimensions as int32", int32_dimensions),
    ("the id as int32", int32_id),
    ("the data type as an int64", int64_data_type),
    ("`IS_VIRTUAL` as an int64", int64_boolean),
    ("a tensor without strides", no_strides),
    ("a tensor without a data type", no_data_type),
    ("a tensor without an id", no_id),
    ("a tensor without an alignment", no_alignment),
    ("fewer strides than dimensions", fewer_strides),
    ("an attribute of another kind of descriptor", others_attribute),
    ("an attribute set after `cudnnBackendFinalize`", set_after_finalize),
    ("an attribute read before `cudnnBackendFinalize`", read_before_finalize),
    ("`SPATIAL_DIMS` as an array, one number for each", spatial_dims_array),
    ("`SPATIAL_DIMS` as int32", spatial_dims_int32),
    ("`SPATIAL_DIMS` left out", no_spatial_dims),
    ("three paddings for two spatial dimensions", three_paddings),
    ("a stride of 0", stride_of_zero),
    ("alpha as a double, with sums in float", double_alpha),
    ("an operation with a tensor that is not finalised", unfinalised_tensor),
    ("the filter has other channels than x, and they do not divide", other_channels),
    ("x's dimensions in the order in which they lie: N, H, W, C", dimensions_as_they_lie),
    ("y of the wrong size", wrong_y),
    ("y has other channels than there are filters", wrong_y_channels),
    ("the grouped layout for x alone", half_grouped),
    ("a graph of no operation", empty_graph),
    ("the operations of a graph as `CUDNN_TYPE_VOID_PTR`", void_operations),
    ("two tensors with one id", one_id_twice),
    ("a virtual tensor that no operation makes", virtual_input),
    ("nothing leaves the graph: y is virtual", virtual_output),
    ("a type that no engine has: the filter in half, the rest in float", no_engine),
    ("the steps of a graph are not joined: other ids for what is between", not_joined),
    ("a bias that does not fit", unfitting_bias),
    ("heuristics without a handle in the graph, or a device", no_handle),
    ("an engine by a number that is too large", engine_out_of_range),
    ("a plan without a configuration", plan_without_configuration),
    ("a pack with fewer pointers than ids", fewer_pointers),
    ("ids of a pack as int32", int32_ids),
    ("a device described by something else than JSON", device_is_no_json),
];

/// The reasons of the last entry of cuDNN's log that has any, the innermost first.
static REASONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn main() -> ExitCode {
    if let Err(error) = x().describe()
        && !Gpu::has_driver()
    {
        println!("This release cannot finalise any descriptor without libcuda.so.1, the driver's library: {error}");
        return ExitCode::SUCCESS;
    }
    // Twice: what the text says depends on whether anybody receives the log.
    let without: Vec<_> = match std::env::args().len() {
        1 => MISTAKES.iter().map(|(_, make)| make()).collect(),
        _ => Vec::new(),
    };
    let heard = set_hook(Severity::up_to(2), |event| {
        let reasons: Vec<String> = event.entry.traceback.iter().map(|reason| reason.reason.clone()).collect();
        if let (Ok(mut last), false) = (REASONS.lock(), reasons.is_empty()) {
            *last = reasons;
        }
    });
    if let Err(error) = heard {
        return backend::told(Err(error.into()));
    }
    // In a process of its own: see `run`.
    if let Some(index) = std::env::args().nth(1) {
        let mistake = index.parse().ok().and_then(|index: usize| run::MISTAKES.get(index));
        return backend::told(mistake.ok_or("no such mistake".into()).and_then(|(_, mistake)| run::make(mistake)));
    }
    // SAFETY: the function takes nothing.
    println!("cuDNN {}\n", unsafe { cudnn::cudnnGetVersion() });
    println!(
        "| Mistake | Refused by | Status | The text of `cudnnGetLastErrorString` | The innermost reason in the log |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for ((what, make), without) in MISTAKES.iter().zip(without) {
        let _ = REASONS.lock().map(|mut reasons| reasons.clear());
        match (make(), without) {
            (Err(Error { function, status, .. }), without) => {
                let status = format!("{status:?}").replace("CUDNN_STATUS_", "");
                let text = without.err().map(|error| error.text).unwrap_or_default();
                let reason = REASONS.lock().ok().and_then(|reasons| reasons.first().cloned()).unwrap_or_default();
                println!("| {what} | `{function}` | {status} | {} | {} |", in_a_cell(&text), in_a_cell(&reason));
            }
            (Ok(instead), _) => println!("| {what} | {instead} | | | |"),
        }
    }
    backend::told(run::all())
}

/// The first line with anything in it.
fn in_a_cell(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.replace('|', "\\|").chars().take(160).collect();
    if line.is_empty() { line } else { format!("`{line}`") }
}

fn done(descriptor: Descriptor) -> Outcome {
    drop(descriptor);
    Ok("nobody")
}

fn tensor() -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)
}

fn bytes_for_count() -> Outcome {
    // As many as are said to be there, so that cuDNN reads nothing else: a real mistake has it read beyond the array.
    let (enough, bytes) = ([8i64; 32], 32);
    let mut tensor = tensor()?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i64])?
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[FLOAT])?
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?;
    for name in [Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Name::CUDNN_ATTR_TENSOR_STRIDES] {
        // SAFETY: there are so many elements.
        tensor = unsafe { tensor.set_as(name, Type::CUDNN_TYPE_INT64, bytes, enough.as_ptr().cast()) }?;
    }
    tensor.finalize().and_then(done)
}

fn int32_dimensions() -> Outcome {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[8i32; 4]).and_then(done)
}

fn int32_id() -> Outcome {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i32]).and_then(done)
}

fn int64_data_type() -> Outcome {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[0i64]).and_then(done)
}

fn int64_boolean() -> Outcome {
    tensor()?.set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[1i64]).and_then(done)
}

/// A tensor with all but one of its attributes.
fn tensor_without(left_out: Name) -> Outcome {
    let (dims, strides) = ([4i64, 16, 20, 20], [6400i64, 400, 20, 1]);
    let mut tensor = tensor()?;
    if left_out != Name::CUDNN_ATTR_TENSOR_UNIQUE_ID {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[1i64])?;
    }
    if left_out != Name::CUDNN_ATTR_TENSOR_DATA_TYPE {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[FLOAT])?;
    }
    if left_out != Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16i64])?;
    }
    tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &dims)?;
    if left_out != Name::CUDNN_ATTR_TENSOR_STRIDES {
        tensor = tensor.set(Name::CUDNN_ATTR_TENSOR_STRIDES, &strides)?;
    }
    tensor.finalize().and_then(done)
}

fn no_strides() -> Outcome {
    tensor_without(Name::CUDNN_ATTR_TENSOR_STRIDES)
}

fn no_data_type() -> Outcome {
    tensor_without(Name::CUDNN_ATTR_TENSOR_DATA_TYPE)
}

fn no_id() -> Outcome {
    tensor_without(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)
}

fn no_alignment() -> Outcome {
    tensor_without(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
}

fn fewer_strides() -> Outcome {
    let tensor = Tensor { strides: vec![400, 20, 1], ..Tensor::packed(1, FLOAT, &[4, 16, 20, 20]) };
    tensor.describe().and_then(done)
}

fn others_attribute() -> Outcome {
    tensor()?.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2i64]).and_then(done)
}

fn set_after_finalize() -> Outcome {
    x().describe()?.set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[2i64]).and_then(done)
}

fn read_before_finalize() -> Outcome {
    tensor()?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[2i64])?
        .number(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)
        .map(|_| "nobody")
}

fn convolution() -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
}

fn spatial_dims_array() -> Outcome {
    convolution()?.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[20i64, 20]).and_then(done)
}

fn spatial_dims_int32() -> Outcome {
    convolution()?.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2i32]).and_then(done)
}

/// A convolution with these attributes, and one for the rest; without `spatial`, without that.
fn convolution_with(spatial: Option<i64>, paddings: &[i64], stride: i64) -> Outcome {
    let mut convolution = convolution()?
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[FLOAT])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[cudnn::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION])?;
    if let Some(spatial) = spatial {
        convolution = convolution.set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[spatial])?;
    }
    convolution
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, paddings)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, paddings)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &[stride, stride])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1i64, 1])?
        .finalize()
        .and_then(done)
}

fn no_spatial_dims() -> Outcome {
    convolution_with(None, &[1, 1], 1)
}

fn three_paddings() -> Outcome {
    convolution_with(Some(2), &[1, 1, 1], 1)
}

fn stride_of_zero() -> Outcome {
    convolution_with(Some(2), &[1, 1], 0)
}

fn x() -> Tensor {
    Tensor::packed(1, FLOAT, &[4, 16, 20, 20])
}

fn w() -> Tensor {
    Tensor::packed(2, FLOAT, &[32, 16, 3, 3])
}

fn y() -> Tensor {
    Tensor::packed(3, FLOAT, &[4, 32, 20, 20])
}

/// The convolution of these, padded by one.
fn forward(x: &Tensor, w: &Tensor, y: &Tensor) -> Result<Descriptor, Error> {
    Convolution::padded(1, 2).forward([x, w, y], 1.0, 0.0)
}

fn double_alpha() -> Outcome {
    Convolution::padded(1, 2).forward_with([&x(), &w(), &y()], 1f64, 0f64).and_then(done)
}

fn unfinalised_tensor() -> Outcome {
    Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &[&tensor()?])?
        .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &[&w().describe()?])?
        .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &[&y().describe()?])?
        .parts(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[&Convolution::padded(1, 2).describe()?])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, &[1f32])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, &[0f32])?
        .finalize()
        .and_then(done)
}

fn other_channels() -> Outcome {
    forward(&x(), &Tensor::packed(2, FLOAT, &[32, 12, 3, 3]), &y()).and_then(done)
}

fn dimensions_as_they_lie() -> Outcome {
    forward(&Tensor::packed(1, FLOAT, &[4, 20, 20, 16]), &w(), &y()).and_then(done)
}

fn wrong_y() -> Outcome {
    forward(&x(), &w(), &Tensor::packed(3, FLOAT, &[4, 32, 18, 18])).and_then(done)
}

fn wrong_y_channels() -> Outcome {
    forward(&x(), &w(), &Tensor::packed(3, FLOAT, &[4, 16, 20, 20])).and_then(done)
}

fn half_grouped() -> Outcome {
    forward(&x().split(1, 4), &Tensor::packed(2, FLOAT, &[32, 4, 3, 3]), &y()).and_then(done)
}

fn empty_graph() -> Outcome {
    graph(None, &[]).and_then(done)
}

fn void_operations() -> Outcome {
    let operation = forward(&x(), &w(), &y())?;
    Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[operation.raw().cast::<c_void>().cast_const()])
        .and_then(done)
}

fn one_id_twice() -> Outcome {
    let w = Tensor { uid: 1, ..w() };
    planned(&[&forward(&x(), &w, &y())?])
}

fn virtual_input() -> Outcome {
    let x = Tensor { is_virtual: true, ..x() };
    planned(&[&forward(&x, &w(), &y())?])
}

fn virtual_output() -> Outcome {
    let y = Tensor { is_virtual: true, ..y() };
    planned(&[&forward(&x(), &w(), &y)?])
}

fn not_joined() -> Outcome {
    let (made, taken) = (y().between(5, FLOAT), y().between(6, FLOAT));
    planned(&[&forward(&x(), &w(), &made)?, &relu([&taken, &y()])?])
}

fn unfitting_bias() -> Outcome {
    let between = y().between(5, FLOAT);
    let bias = Tensor::packed(4, FLOAT, &[1, 16, 1, 1]);
    planned(&[&forward(&x(), &w(), &between)?, &add([&between, &bias, &y()])?])
}

fn no_engine() -> Outcome {
    let w = Tensor::packed(2, HALF, &[32, 16, 3, 3]);
    planned(&[&forward(&x(), &w, &y())?])
}

fn no_handle() -> Outcome {
    let graph = graph(None, &[&forward(&x(), &w(), &y())?])?;
    Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[&graph])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[Mode::CUDNN_HEUR_MODE_A])?
        .finalize()
        .and_then(done)
}

fn engine_out_of_range() -> Outcome {
    let device = described(include_str!("../plan_without_gpu/h200.json"))?;
    let graph = graph(None, &[&forward(&x(), &w(), &y())?])?;
    engine(&graph, 1_000_000, For::Device(&device)).and_then(done)
}

fn plan_without_configuration() -> Outcome {
    Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?.finalize().and_then(done)
}

fn fewer_pointers() -> Outcome {
    let (ids, pointers) = ([1i64, 2, 3], [std::ptr::null::<c_void>(); 2]);
    Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[std::ptr::null::<c_void>()])?
        .finalize()
        .and_then(done)
}

fn int32_ids() -> Outcome {
    Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1i32, 2, 3])
        .and_then(done)
}

fn device_is_no_json() -> Outcome {
    described("an H200").and_then(done)
}

/// Goes on to plan a graph that was taken, on a device that is described.
fn planned(operations: &[&Descriptor]) -> Outcome {
    let graph = graph(None, operations)?;
    if !engines_can_be_walked() {
        return Ok("not tried here: without cuBLASLt cuDNN would end the process");
    }
    let device = described(include_str!("../plan_without_gpu/h200.json"))?;
    let what_for = For::Device(&device);
    let mut proposals = proposed(&graph, Mode::CUDNN_HEUR_MODE_A, what_for)?;
    proposals.extend(proposed(&graph, Mode::CUDNN_HEUR_MODE_FALLBACK, what_for)?);
    let mut last = Ok("nobody, and the heuristics propose nothing");
    for proposal in &proposals {
        match Plan::new(proposal, what_for) {
            Ok(_) => return Ok("nobody, and a plan can be made"),
            Err(error) => last = Err(error),
        }
    }
    last
}

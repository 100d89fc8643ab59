//! A half-precision convolution with float accumulation, by the backend API, which the JIT-only releases have too.

use std::time::Instant;

use cudarc::driver::{DevicePtr, DevicePtrMut};
use cudnn_loader::{
    self as cudnn, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode, cudnnDataType_t,
};
use cudnn_probe::Library;
use half::f16;

use super::descriptor::{Descriptor, Error, check};
use super::gpu::{Gpu, refused};
use super::reference::{self, Shape};
use super::{Failure, Progress};
use crate::output::outln;

const SHAPE: Shape = Shape { n: 32, c: 64, k: 64, h: 56, w: 56 };
/// How far the result may be from the reference, as a part of the reference's size. Rounding the result to half
/// precision alone gives some 3e-4.
const TOLERANCE: f64 = 1e-3;
/// How often the convolution is run for its time.
const RUNS: u32 = 100;

pub(crate) fn run(gpu: &Gpu, shown: &mut Progress) -> Result<(), Failure> {
    let (major, minor) = gpu.context.compute_capability().map_err(refused)?;
    let Shape { n, c, k, h, w } = SHAPE;
    outln!(
        "\nOn {} (compute capability {major}.{minor}): {n}x{c}x{h}x{w}, {k} filters of 3x3, half precision with \
         float accumulation:",
        gpu.context.name().map_err(refused)?
    );
    let handle = Handle::new()?;
    let plan = Plan::new(&handle);
    // Also when it failed: what cuDNN opened, or did not, says why.
    shown.opened();
    let plan = plan?;
    let input = noise(n * h * w * c, 1);
    let filter = noise(k * 9 * c, 2);
    let bits = |values: &[f16]| values.iter().map(|value| value.to_bits()).collect::<Vec<u16>>();
    let stream = &gpu.stream;
    let input_there = stream.clone_htod(&bits(&input)).map_err(refused)?;
    let filter_there = stream.clone_htod(&bits(&filter)).map_err(refused)?;
    // Not zeros but NaN, so that an element that nobody writes shows.
    let mut output_there = stream.clone_htod(&vec![f16::NAN.to_bits(); n * h * w * k]).map_err(refused)?;
    let mut workspace = stream.alloc_zeros::<u8>(plan.workspace.max(1)).map_err(refused)?;
    {
        let (x, _x) = input_there.device_ptr(stream);
        let (f, _f) = filter_there.device_ptr(stream);
        let (y, _y) = output_there.device_ptr_mut(stream);
        let (work, _work) = workspace.device_ptr_mut(stream);
        let pointers = [x, f, y].map(|pointer| pointer as usize as *const std::ffi::c_void);
        let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1i64, 2, 3])?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[work as usize as *const std::ffi::c_void])?
            .finalize()?;
        let execute = || {
            // SAFETY: the plan and the pack are finalised, and the pack's memory is live and of the tensors' sizes.
            let status = unsafe { cudnn::cudnnBackendExecute(handle.0, plan.descriptor.raw(), pack.raw()) };
            check(status, || "executing the plan".into())
        };
        let start = Instant::now();
        execute()?;
        stream.synchronize().map_err(refused)?;
        outln!("  first convolution: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        for _ in 0..RUNS {
            execute()?;
        }
        stream.synchronize().map_err(refused)?;
        let each = start.elapsed().as_secs_f64() / f64::from(RUNS);
        let operations = 2.0 * (n * h * w * k * 9 * c) as f64;
        outln!("  each of {RUNS} more:   {:.4} ms, {:.1} TFLOP/s", each * 1e3, operations / each / 1e12);
    }
    let output = stream.clone_dtoh(&output_there).map_err(refused)?;
    let start = Instant::now();
    let expected = reference::convolve(SHAPE, &input, &filter);
    outln!("  on the CPU:         {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let (mut difference, mut size) = (0f64, 0f64);
    for (bits, expected) in output.iter().zip(&expected) {
        let expected = f64::from(*expected);
        difference += (f16::from_bits(*bits).to_f64() - expected).powi(2);
        size += expected.powi(2);
    }
    let error = (difference / size).sqrt();
    outln!("  error against it:   {error:.2e} of the result's size");
    // Not `error > TOLERANCE`: NaN is wrong too.
    if error <= TOLERANCE {
        outln!("Right.");
        return Ok(());
    }
    Err(format!("The result is wrong: its error is {error:.2e}, and {TOLERANCE:.0e} is allowed. Try another release.")
        .into())
}

/// Numbers between -1 and 1, the same at each run.
fn noise(count: usize, seed: u64) -> Vec<f16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..count)
        .map(|_| {
            // The generator is xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f16::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        })
        .collect()
}

struct Handle(cudnn::cudnnHandle_t);

impl Handle {
    fn new() -> Result<Self, Error> {
        let mut handle = std::ptr::null_mut();
        let start = Instant::now();
        // SAFETY: cuDNN writes a new handle to where it is told.
        check(unsafe { cudnn::cudnnCreate(&mut handle) }, || "cudnnCreate".into())?;
        outln!("  handle:             {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
        Ok(Handle(handle))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and nobody uses it after this.
        let _ = unsafe { cudnn::cudnnDestroy(self.0) };
    }
}

/// The convolution, planned.
struct Plan {
    descriptor: Descriptor,
    workspace: usize,
}

impl Plan {
    /// Takes the first configuration that this device can run: of those that the heuristics propose, or, where they
    /// propose none that can, of every engine that there is. A JIT-only cuDNN has no heuristics.
    fn new(handle: &Handle) -> Result<Plan, Failure> {
        type Source = fn(&Descriptor) -> Result<Vec<Descriptor>, Error>;
        const SOURCES: [(&str, Source); 3] = [
            ("proposed by heuristics, mode A", |graph| proposed(graph, Mode::CUDNN_HEUR_MODE_A)),
            ("proposed as a fallback", |graph| proposed(graph, Mode::CUDNN_HEUR_MODE_FALLBACK)),
            ("engines, one by one", every_engine),
        ];
        let start = Instant::now();
        let graph = graph(handle)?;
        let mut reasons = Vec::new();
        for (source, configurations) in SOURCES {
            let configurations = configurations(&graph).unwrap_or_else(|error| {
                reasons.push(error.to_string());
                Vec::new()
            });
            for (index, configuration) in configurations.iter().enumerate() {
                match plan(handle, configuration) {
                    Ok(plan) => {
                        outln!(
                            "  plan:               {:.2} ms, number {} of {} {source}, workspace {} bytes",
                            start.elapsed().as_secs_f64() * 1e3,
                            index + 1,
                            configurations.len(),
                            plan.workspace
                        );
                        return Ok(plan);
                    }
                    Err(error) => reasons.push(error.to_string()),
                }
            }
        }
        reasons.dedup();
        Err(no_engine(&reasons).into())
    }
}

/// That nothing can run the convolution, and what may help.
fn no_engine(reasons: &[String]) -> String {
    let mut text = String::from("This cuDNN has no engine for the convolution on this GPU. ");
    match cudnn::installation() {
        Some(found) if !found.has(Library::EnginesPrecompiled) => {
            let major = found.cuda_major.or_else(|| found.cuda_major_from_gpu_code()).unwrap_or(12);
            text.push_str(&format!(
                "It is a JIT-only one, which compiles its kernels with libnvrtc.so.{major}: install \
                 nvidia-cuda-nvrtc-cu{major} where it can be found, or the full cuDNN."
            ));
        }
        _ => text.push_str("Install the full cuDNN, of a release that knows this GPU."),
    }
    for reason in reasons {
        text.push_str("\n  ");
        text.push_str(reason);
    }
    text
}

/// The operation graph: one convolution, channels last.
fn graph(handle: &Handle) -> Result<Descriptor, Error> {
    let [n, c, k, h, w] = [SHAPE.n, SHAPE.c, SHAPE.k, SHAPE.h, SHAPE.w].map(|value| value as i64);
    let x = Descriptor::tensor(1, &[n, c, h, w], &[c * h * w, 1, c * w, c])?;
    let f = Descriptor::tensor(2, &[k, c, 3, 3], &[c * 9, 1, c * 3, c])?;
    let y = Descriptor::tensor(3, &[n, k, h, w], &[k * h * w, 1, k * w, k])?;
    let convolution = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[cudnnDataType_t::CUDNN_DATA_FLOAT])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[cudnn::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2i64])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1i64, 1])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &[1i64, 1])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &[1i64, 1])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &[1i64, 1])?
        .finalize()?;
    let operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &[x.raw()])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &[f.raw()])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &[y.raw()])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &[convolution.raw()])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, &[1f32])?
        .set(Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, &[0f32])?
        .finalize()?;
    Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle.0])?
        .set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[operation.raw()])?
        .finalize()
}

/// The configurations that the heuristics propose, best first.
fn proposed(graph: &Descriptor, mode: Mode) -> Result<Vec<Descriptor>, Error> {
    let heuristics = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph.raw()])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?
        .finalize()?;
    let results = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
    let count = heuristics.count(results, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
    let mut found =
        (0..count).map(|_| Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect::<Result<Vec<_>, _>>()?;
    let filled = heuristics.fill(results, &found)?;
    found.truncate(filled);
    Ok(found)
}

/// A configuration with default knobs of each engine that takes the graph.
fn every_engine(graph: &Descriptor) -> Result<Vec<Descriptor>, Error> {
    let count = graph.number(Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)?;
    let configuration = |index: i64| {
        let engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph.raw()])?
            .set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])?
            .finalize()?;
        Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine.raw()])?
            .finalize()
    };
    // An engine that does not take the graph is no failure: there are many, each for some graphs.
    Ok((0..count).filter_map(|index| configuration(index).ok()).collect())
}

fn plan(handle: &Handle, configuration: &Descriptor) -> Result<Plan, Error> {
    let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[handle.0])?
        .set(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration.raw()])?
        .finalize()?;
    let workspace = descriptor.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
    Ok(Plan { descriptor, workspace: usize::try_from(workspace).unwrap_or(0) })
}

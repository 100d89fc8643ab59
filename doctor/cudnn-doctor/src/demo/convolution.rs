//! Runs a half-precision convolution with float accumulation through the backend API, which JIT-only releases support
//! too.

use std::time::Instant;

use cudnn_backend::device::Target;
use cudnn_backend::execute::VariantPack;
use cudnn_backend::gpu::Gpu;
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::{NoPlan, Plan};
use cudnn_backend::reference;
use cudnn_backend::tensor::Tensor;
use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::output::{milliseconds, outln};
use cudnn_loader::{self as cudnn, cudnnDataType_t as DataType};
use cudnn_probe::Library;

use super::progress::{DemoError, HELP, Progress, driver_failure};

const HALF: DataType = DataType::CUDNN_DATA_HALF;
const X_DIMS: [i64; 4] = [32, 64, 56, 56];
const W_DIMS: [i64; 4] = [64, 64, 3, 3];
const Y_DIMS: [i64; 4] = [32, 64, 56, 56];
/// The maximum relative error. Rounding the result to half precision contributes about 3e-4.
const TOLERANCE: f64 = 1e-3;
const RUNS: u32 = 100;

/// Returns the input tensor in half precision with channels innermost.
pub(super) fn input() -> Tensor {
    Tensor::channels_last(1, HALF, &X_DIMS)
}

/// Runs the convolution on this GPU, prints the timing of the steps, and compares the result with a CPU reference.
pub(super) fn run(gpu: &Gpu, progress: &mut Progress) -> Result<(), DemoError> {
    let (major, minor) = gpu.compute_capability;
    let ([n, c, h, w], [_, k, p, q]) = (X_DIMS, Y_DIMS);
    outln!(
        "\nOn {} (compute capability {major}.{minor}): {n}x{c}x{h}x{w}, {k} filters of 3x3, half precision with \
         float accumulation:",
        gpu.name
    );
    begin(Work::Compute, "ran the convolution");
    let start = Instant::now();
    let handle = Handle::new().map_err(with_help)?;
    outln!("  handle:             {:.2} ms", milliseconds(start.elapsed()));
    let convolution = Convolution::padded(1, 2);
    let (x, w, y) = (input(), Tensor::channels_last(2, HALF, &W_DIMS), Tensor::channels_last(3, HALF, &Y_DIMS));
    let start = Instant::now();
    let operation = convolution.forward([&x, &w, &y], 1.0, 0.0).map_err(with_help)?;
    let graph = graph(Some(&handle), &[&operation]).map_err(with_help)?;
    let first = Plan::first(&graph, Target::Handle(&handle));
    let planned = milliseconds(start.elapsed());
    // Even after a failure, because the opened libraries may explain it.
    progress.opened();
    let first = first.map_err(|error| no_engine(&error))?;
    let plan = first.plan;
    outln!(
        "  plan:               {planned:.2} ms, number {} of {} {}, workspace {} bytes",
        first.index + 1,
        first.count,
        first.source,
        plan.workspace_size
    );

    let (x_values, w_values) = (reference::noise(&x), reference::noise(&w));
    let x_memory = gpu.upload(&reference::encode(&x, &x_values)).map_err(driver_failure)?;
    let w_memory = gpu.upload(&reference::encode(&w, &w_values)).map_err(driver_failure)?;
    // Fill with NaN to detect elements that are never written.
    let y_memory = gpu.upload(&reference::encode(&y, &vec![f32::NAN; y.element_count()])).map_err(driver_failure)?;
    let workspace = gpu.zeroed(plan.workspace_size).map_err(driver_failure)?;
    let memory = [(x.uid, &x_memory), (w.uid, &w_memory), (y.uid, &y_memory)];
    let pack = VariantPack::new(&memory, &workspace).map_err(with_help)?;
    // SAFETY: the buffers have the sizes of their tensors; the workspace and the handle belong to the plan.
    let execute = || unsafe { plan.execute(&handle, &pack) }.map_err(with_help);
    let start = Instant::now();
    execute()?;
    gpu.synchronize().map_err(driver_failure)?;
    outln!("  first convolution:  {:.2} ms", milliseconds(start.elapsed()));
    let start = Instant::now();
    for _ in 0..RUNS {
        execute()?;
    }
    gpu.synchronize().map_err(driver_failure)?;
    let each = milliseconds(start.elapsed()) / f64::from(RUNS);
    let operations = 2.0 * (n * k * p * q * c * 9) as f64;
    outln!("  each of {RUNS} more:   {each:.4} ms, {:.1} TFLOP/s", operations / each / 1e9);

    let result = reference::decode(&y, &gpu.download(&y_memory).map_err(driver_failure)?);
    let start = Instant::now();
    let zeros = vec![0.0; y.element_count()];
    let expected = reference::convolve(&convolution, [&x, &w, &y], [&x_values, &w_values, &zeros], (1.0, 0.0));
    outln!("  on the CPU:         {:.0} ms", milliseconds(start.elapsed()));
    let error = reference::compare(&result, &expected, TOLERANCE)
        .map_err(|error| format!("{error}\nhelp: try another cuDNN release"))?;
    outln!("  relative error:     {error:.2e}");
    outln!("The result is correct.");
    Ok(())
}

fn with_help(error: cudnn::Error) -> DemoError {
    format!("{error}\nhelp: {HELP}").into()
}

fn no_engine(error: &NoPlan) -> String {
    let help = match cudnn::installation() {
        Some(found) if !found.has(Library::EnginesPrecompiled) => {
            let major = found.cuda_major.or_else(|| found.cuda_major_from_gpu_code()).unwrap_or(12);
            format!(
                "this is a JIT-only release, which compiles its kernels with libnvrtc.so.{major}: install NVRTC of CUDA \
                 {major} where ld.so finds it, or a full cuDNN release"
            )
        }
        _ if error.skipped_engines => {
            "install cuBLAS: some engines were skipped, because cuDNN aborts if an engine cannot load cuBLASLt".into()
        }
        _ => "install a full cuDNN release that supports this GPU".into(),
    };
    let mut reasons: Vec<String> = error.errors.iter().map(|reason| format!("\nnote: {reason}")).collect();
    reasons.dedup();
    format!("no engine of this cuDNN can run the convolution on this GPU\nhelp: {help}{}", reasons.concat())
}

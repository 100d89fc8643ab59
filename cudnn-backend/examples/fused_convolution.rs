//! Fuses convolution, bias and ReLU into one graph, with half-precision tensors and float between the operations.
//!
//! `cargo run --release -p cudnn-backend --example fused_convolution`

use std::process::ExitCode;

use cudnn_backend::cudnn::cudnnDataType_t as DataType;
use cudnn_backend::device::Target;
use cudnn_backend::execute::VariantPack;
use cudnn_backend::gpu::Gpu;
use cudnn_backend::graph::{Convolution, add, graph, relu};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_backend::{Failure, program, reference};

/// Rounding the result to half precision already causes an error of about 2e-4.
const TOLERANCE: f64 = 1e-3;

fn main() -> ExitCode {
    program::run_on_gpu(run)
}

fn run(gpu: &Gpu) -> Result<(), Failure> {
    let (half, float) = (DataType::CUDNN_DATA_HALF, DataType::CUDNN_DATA_FLOAT);
    let x = Tensor::channels_last(1, half, &[8, 64, 28, 28]);
    let w = Tensor::channels_last(2, half, &[128, 64, 3, 3]);
    // One number per channel, the same for all images and pixels.
    let b = Tensor::channels_last(3, half, &[1, 128, 1, 1]);
    let y = Tensor::channels_last(4, half, &[8, 128, 28, 28]);
    // Virtual tensors between the operations, in registers and as float.
    let (sums, biased) = (y.to_virtual(5, float), y.to_virtual(6, float));
    let convolution = Convolution::padded(1, 2);
    let operations =
        [convolution.forward([&x, &w, &sums], 1.0, 0.0)?, add([&sums, &b, &biased])?, relu([&biased, &y])?];
    let handle = Handle::new()?;
    let graph = graph(Some(&handle), &operations.each_ref())?;
    let plan = Plan::first(&graph, Target::Handle(&handle))?.plan;
    println!("one plan for three operations, workspace {} bytes", plan.workspace_size);

    let [x_values, w_values, b_values] = [&x, &w, &b].map(reference::noise);
    let x_memory = gpu.upload(&reference::encode(&x, &x_values))?;
    let w_memory = gpu.upload(&reference::encode(&w, &w_values))?;
    let b_memory = gpu.upload(&reference::encode(&b, &b_values))?;
    // Filled with NaN to detect elements that are never written.
    let y_memory = gpu.upload(&reference::encode(&y, &vec![f32::NAN; y.element_count()]))?;
    let workspace = gpu.zeroed(plan.workspace_size)?;
    // Virtual tensors need no memory.
    let memory = [(x.uid, &x_memory), (w.uid, &w_memory), (b.uid, &b_memory), (y.uid, &y_memory)];
    let pack = VariantPack::new(&memory, &workspace)?;
    // SAFETY: every buffer is as large as the tensor; the workspace and the handle belong to the plan.
    unsafe { plan.execute(&handle, &pack) }?;
    let result = reference::decode(&y, &gpu.download(&y_memory)?);

    let zeros = vec![0.0; y.element_count()];
    let mut expected = reference::convolve(&convolution, [&x, &w, &y], [&x_values, &w_values, &zeros], (1.0, 0.0));
    // In channels-last tensors, the channels of a pixel are adjacent.
    for pixel in expected.chunks_mut(b_values.len()) {
        pixel.iter_mut().zip(&b_values).for_each(|(value, bias)| *value = (*value + bias).max(0.0));
    }
    let error = reference::compare(&result, &expected, TOLERANCE)?;
    println!("correct, relative error {error:.1e}");
    Ok(())
}

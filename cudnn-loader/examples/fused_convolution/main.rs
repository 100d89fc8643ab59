//! Convolution, bias and ReLU in one graph, run as one: half precision, with everything between in float.
//!
//! `cargo run --release -p cudnn-loader --example fused_convolution`

use std::process::ExitCode;

use cudnn_loader as cudnn;

#[path = "../backend/mod.rs"]
mod backend;

use backend::descriptor::Handle;
use backend::gpu::Gpu;
use backend::graph::{Convolution, add, graph, relu};
use backend::plan::{Pack, Plan};
use backend::tensor::Tensor;
use backend::{Failure, reference};
use cudnn::cudnnDataType_t as DataType;

/// Rounding the result to half precision alone gives some 2e-4.
const TOLERANCE: f64 = 1e-3;

fn main() -> ExitCode {
    backend::on_a_gpu(run)
}

fn run(gpu: &Gpu) -> Result<(), Failure> {
    let (half, float) = (DataType::CUDNN_DATA_HALF, DataType::CUDNN_DATA_FLOAT);
    let x = Tensor::channels_last(1, half, &[8, 64, 28, 28]);
    let w = Tensor::channels_last(2, half, &[128, 64, 3, 3]);
    // One number for each channel, the same for each image and place.
    let b = Tensor::channels_last(3, half, &[1, 128, 1, 1]);
    let y = Tensor::channels_last(4, half, &[8, 128, 28, 28]);
    // Between the operations, in registers: virtual, and float.
    let (sums, biased) = (y.between(5, float), y.between(6, float));
    let convolution = Convolution::padded(1, 2);
    let operations =
        [convolution.forward([&x, &w, &sums], 1.0, 0.0)?, add([&sums, &b, &biased])?, relu([&biased, &y])?];
    let handle = Handle::new()?;
    let [first, second, third] = &operations;
    let plan = Plan::first(&graph(Some(&handle), &[first, second, third])?, &handle)?;
    println!("one plan for the three operations, workspace {} bytes", plan.workspace);

    let [x_values, w_values, b_values] = [&x, &w, &b].map(reference::noise);
    let there = [
        gpu.upload(&reference::bytes(&x, &x_values))?,
        gpu.upload(&reference::bytes(&w, &w_values))?,
        gpu.upload(&reference::bytes(&b, &b_values))?,
        gpu.upload(&reference::bytes(&y, &vec![f32::NAN; y.len()]))?,
    ];
    let [x_there, w_there, b_there, y_there] = &there;
    let workspace = gpu.room(plan.workspace)?;
    // What is virtual has no memory.
    let memory = [(x.uid, x_there), (w.uid, w_there), (b.uid, b_there), (y.uid, y_there)];
    let pack = Pack::new(&memory, &workspace)?;
    // SAFETY: each memory was made for its tensor, the workspace and the handle are the plan's.
    let execute = || unsafe { plan.execute(&handle, &pack) };
    execute()?;
    let result = reference::values(&y, &gpu.download(y_there)?);

    let nothing = vec![0.0; y.len()];
    let mut expected = reference::convolve(&convolution, [&x, &w, &y], [&x_values, &w_values, &nothing], (1.0, 0.0));
    // Channels last: each place has all of them beside each other.
    for place in expected.chunks_mut(b_values.len()) {
        place.iter_mut().zip(&b_values).for_each(|(value, bias)| *value = (*value + bias).max(0.0));
    }
    let error = reference::compare(&result, &expected, TOLERANCE)?;
    println!("right, {error:.1e} away from the CPU's");
    let each = gpu.time(100, || Ok(execute()?))?;
    println!("{each:.4} ms each");
    Ok(())
}

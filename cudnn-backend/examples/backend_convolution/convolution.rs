//! Runs the convolutions. The source is the same whether cuDNN is loaded or linked.

use cudnn_backend::cudnn::cudnnDataType_t;
use cudnn_backend::device::Target;
use cudnn_backend::execute::VariantPack;
use cudnn_backend::gpu::Gpu;
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::handle::Handle;
use cudnn_backend::plan::Plan;
use cudnn_backend::tensor::Tensor;
use cudnn_backend::{Failure, reference};

const FLOAT: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_FLOAT;
/// cuDNN may multiply in TF32, which has a 10-bit mantissa.
const TOLERANCE: f64 = 2e-3;

// Ids are int64, and you choose them.
const X: i64 = 1;
const W: i64 = 2;
const Y: i64 = 1 << 40;

struct Case {
    name: &'static str,
    /// Extents of x, w and y.
    dims: [&'static [i64]; 3],
    /// The number of spatial dimensions (CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS). The extents have two more (N, C), or
    /// three more in the grouped layout (N, G, C).
    spatial: usize,
    stride: i64,
    dilation: i64,
    alpha: f32,
    beta: f32,
    is_channels_last: bool,
}

const PLAIN: Case = Case {
    name: "2-d, NCHW",
    dims: [&[4, 16, 20, 20], &[32, 16, 3, 3], &[4, 32, 20, 20]],
    spatial: 2,
    stride: 1,
    dilation: 1,
    alpha: 1.0,
    beta: 0.0,
    is_channels_last: false,
};

const CASES: [Case; 8] = [
    PLAIN,
    Case { name: "2-d, NHWC: the same dimensions, other strides", is_channels_last: true, ..PLAIN },
    Case { name: "2-d, y = 2 * conv(x, w) + 0.5 * y", alpha: 2.0, beta: 0.5, ..PLAIN },
    Case {
        name: "4 groups, with a quarter of the channels per filter",
        dims: [&[4, 32, 20, 20], &[64, 8, 3, 3], &[4, 64, 20, 20]],
        ..PLAIN
    },
    Case {
        name: "4 groups in the grouped layout: [N, G, C, H, W], [G, K, C, R, S]",
        dims: [&[4, 4, 8, 20, 20], &[4, 16, 8, 3, 3], &[4, 4, 16, 20, 20]],
        ..PLAIN
    },
    Case {
        name: "depthwise: as many groups as channels",
        dims: [&[4, 32, 20, 20], &[32, 1, 3, 3], &[4, 32, 20, 20]],
        ..PLAIN
    },
    Case {
        name: "2-d, stride 2, dilation 2: P = (H + 2 * 1 - 2 * (3 - 1) - 1) / 2 + 1",
        dims: [&[4, 16, 21, 20], &[32, 16, 3, 3], &[4, 32, 10, 9]],
        stride: 2,
        dilation: 2,
        ..PLAIN
    },
    Case { name: "3-d", dims: [&[2, 8, 10, 12, 14], &[16, 8, 3, 3, 3], &[2, 16, 10, 12, 14]], spatial: 3, ..PLAIN },
];

pub(crate) fn run(gpu: &Gpu) -> Result<(), Failure> {
    let handle = Handle::new()?;
    for case in &CASES {
        let error = convolve(gpu, &handle, case).map_err(|failure| format!("{}: {failure}", case.name))?;
        println!("{}: correct, relative error {error:.1e}", case.name);
    }
    Ok(())
}

/// Runs one case on the GPU and returns the relative error in comparison with the CPU.
fn convolve(gpu: &Gpu, handle: &Handle, case: &Case) -> Result<f64, Failure> {
    let tensor = if case.is_channels_last { Tensor::channels_last } else { Tensor::packed };
    let [x_dims, w_dims, y_dims] = case.dims;
    let [x, w, y] = &[tensor(X, FLOAT, x_dims), tensor(W, FLOAT, w_dims), tensor(Y, FLOAT, y_dims)];
    let convolution = Convolution {
        stride: vec![case.stride; case.spatial],
        dilation: vec![case.dilation; case.spatial],
        ..Convolution::padded(1, case.spatial)
    };
    let operation = convolution.forward([x, w, y], case.alpha, case.beta)?;
    let plan = Plan::first(&graph(Some(handle), &[&operation])?, Target::Handle(handle))?.plan;

    let x_values = reference::noise(x);
    let w_values = reference::noise(w);
    // With beta 0, cuDNN does not read y, which may contain any value.
    let y_before = if case.beta == 0.0 { vec![f32::NAN; y.element_count()] } else { reference::noise(y) };
    let upload = |tensor: &Tensor, values: &[f32]| gpu.upload(&reference::encode(tensor, values));
    let (x_memory, w_memory, y_memory) = (upload(x, &x_values)?, upload(w, &w_values)?, upload(y, &y_before)?);
    let workspace = gpu.zeroed(plan.workspace_size)?;
    let pack = VariantPack::new(&[(X, &x_memory), (W, &w_memory), (Y, &y_memory)], &workspace)?;
    // SAFETY: every buffer is as large as the tensor; the workspace and the handle belong to the plan.
    unsafe { plan.execute(handle, &pack) }?;

    let result = reference::decode(y, &gpu.download(&y_memory)?);
    let factors = (case.alpha, case.beta);
    let expected = reference::convolve(&convolution, [x, w, y], [&x_values, &w_values, &y_before], factors);
    Ok(reference::compare(&result, &expected, TOLERANCE)?)
}

//! The convolutions. The same file whether cuDNN is loaded (`backend_convolution`) or linked (`linked`).

use crate::backend::descriptor::Handle;
use crate::backend::gpu::Gpu;
use crate::backend::graph::{Convolution, graph};
use crate::backend::plan::{Pack, Plan};
use crate::backend::tensor::Tensor;
use crate::backend::{Failure, reference};
use crate::cudnn::cudnnDataType_t;

const FLOAT: cudnnDataType_t = cudnnDataType_t::CUDNN_DATA_FLOAT;
/// The products may be made in TF32, which keeps ten bits.
const TOLERANCE: f64 = 2e-3;

// Ids are int64, and of one's own choice.
const X: i64 = 1;
const W: i64 = 2;
const Y: i64 = 1 << 40;

struct Case {
    what: &'static str,
    /// Extents of x, w and y.
    dims: [&'static [i64]; 3],
    /// How many of them are spatial: this is CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, one number. The extents may be one more
    /// than N, C and these: the groups, in the grouped layout.
    spatial: usize,
    /// Steps and dilation, the same in each spatial dimension.
    steps: (i64, i64),
    alpha: f32,
    beta: f32,
    is_channels_last: bool,
}

const PLAIN: Case = Case {
    what: "2-d, NCHW",
    dims: [&[4, 16, 20, 20], &[32, 16, 3, 3], &[4, 32, 20, 20]],
    spatial: 2,
    steps: (1, 1),
    alpha: 1.0,
    beta: 0.0,
    is_channels_last: false,
};

const CASES: [Case; 8] = [
    PLAIN,
    Case { what: "2-d, NHWC: the extents stay, the strides say it", is_channels_last: true, ..PLAIN },
    Case { what: "2-d, y = 2 * conv(x, w) + 0.5 * y", alpha: 2.0, beta: 0.5, ..PLAIN },
    Case {
        what: "4 groups: the filters have a quarter of the channels",
        dims: [&[4, 32, 20, 20], &[64, 8, 3, 3], &[4, 64, 20, 20]],
        ..PLAIN
    },
    Case {
        what: "4 groups in the grouped layout: [N, G, C, H, W], [G, K, C, R, S]",
        dims: [&[4, 4, 8, 20, 20], &[4, 16, 8, 3, 3], &[4, 4, 16, 20, 20]],
        ..PLAIN
    },
    Case {
        what: "depthwise: as many groups as channels",
        dims: [&[4, 32, 20, 20], &[32, 1, 3, 3], &[4, 32, 20, 20]],
        ..PLAIN
    },
    Case {
        what: "2-d, two steps at a time, every other tap: P = (H + 2 * 1 - 2 * (3 - 1) - 1) / 2 + 1",
        dims: [&[4, 16, 21, 20], &[32, 16, 3, 3], &[4, 32, 10, 9]],
        steps: (2, 2),
        ..PLAIN
    },
    Case { what: "3-d", dims: [&[2, 8, 10, 12, 14], &[16, 8, 3, 3, 3], &[2, 16, 10, 12, 14]], spatial: 3, ..PLAIN },
];

pub(crate) fn run(gpu: &Gpu) -> Result<(), Failure> {
    let handle = Handle::new()?;
    for case in &CASES {
        let error = convolve(gpu, &handle, case).map_err(|failure| format!("{}: {failure}", case.what))?;
        println!("{}: right, {error:.1e} away from the CPU's", case.what);
    }
    Ok(())
}

fn convolve(gpu: &Gpu, handle: &Handle, case: &Case) -> Result<f64, Failure> {
    let tensor = if case.is_channels_last { Tensor::channels_last } else { Tensor::packed };
    let [x_dims, w_dims, y_dims] = case.dims;
    let tensors = [tensor(X, FLOAT, x_dims), tensor(W, FLOAT, w_dims), tensor(Y, FLOAT, y_dims)];
    let [x, w, y] = &tensors;
    let (stride, dilation) = case.steps;
    let convolution = Convolution {
        stride: vec![stride; case.spatial],
        dilation: vec![dilation; case.spatial],
        ..Convolution::padded(1, case.spatial)
    };
    let operation = convolution.forward([x, w, y], case.alpha, case.beta)?;
    let plan = Plan::first(&graph(Some(handle), &[&operation])?, handle)?;
    let x_values = reference::noise(x);
    let w_values = reference::noise(w);
    // With beta 0 what was there is not read, and may be anything.
    let y_before = if case.beta == 0.0 { vec![f32::NAN; y.len()] } else { reference::noise(y) };
    let upload = |tensor: &Tensor, values: &[f32]| gpu.upload(&reference::bytes(tensor, values));
    let there = [upload(x, &x_values)?, upload(w, &w_values)?, upload(y, &y_before)?];
    let [x_there, w_there, y_there] = &there;
    let workspace = gpu.room(plan.workspace)?;
    let pack = Pack::new(&[(X, x_there), (W, w_there), (Y, y_there)], &workspace)?;
    // SAFETY: each memory was made for its tensor, the workspace and the handle are the plan's.
    unsafe { plan.execute(handle, &pack) }?;
    let result = reference::values(y, &gpu.download(y_there)?);
    let factors = (case.alpha, case.beta);
    let expected = reference::convolve(&convolution, [x, w, y], [&x_values, &w_values, &y_before], factors);
    reference::compare(&result, &expected, TOLERANCE)
}

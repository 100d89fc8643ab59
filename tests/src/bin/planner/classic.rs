//! Calls functions outside the backend API without a handle, which cuDNN refuses, and prints the statuses.

use std::ptr::{null, null_mut};

use cudnn_loader::{
    cudnnActivationMode_t as Activation, cudnnConvolutionFwdAlgo_t as Algorithm, cudnnConvolutionMode_t as Mode,
    cudnnDataType_t as DataType, cudnnNanPropagation_t as Nan, cudnnPoolingMode_t as Pooling,
    cudnnTensorFormat_t as Format,
};

/// Calls the functions twice. The second round uses other descriptors with the same properties.
pub(crate) fn run() {
    const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;
    const NAN: Nan = Nan::CUDNN_NOT_PROPAGATE_NAN;
    let one = 1_f32;
    let one = (&raw const one).cast();
    for _ in 0..2 {
        let (mut x, mut w, mut convolution) = (null_mut(), null_mut(), null_mut());
        let (mut activation, mut pooling) = (null_mut(), null_mut());
        // SAFETY: the pointers are valid, and cuDNN refuses to work without a handle.
        let statuses = unsafe {
            [
                cudnn_loader::cudnnCreateTensorDescriptor(&raw mut x),
                cudnn_loader::cudnnSetTensorNdDescriptor(
                    x,
                    FLOAT,
                    4,
                    [8, 16, 14, 14].as_ptr(),
                    [3136, 196, 14, 1].as_ptr(),
                ),
                cudnn_loader::cudnnCreateFilterDescriptor(&raw mut w),
                cudnn_loader::cudnnSetFilterNdDescriptor(
                    w,
                    FLOAT,
                    Format::CUDNN_TENSOR_NCHW,
                    4,
                    [32, 16, 3, 3].as_ptr(),
                ),
                cudnn_loader::cudnnCreateConvolutionDescriptor(&raw mut convolution),
                cudnn_loader::cudnnSetConvolutionNdDescriptor(
                    convolution,
                    2,
                    [1, 2].as_ptr(),
                    [1, 1].as_ptr(),
                    [1, 1].as_ptr(),
                    Mode::CUDNN_CROSS_CORRELATION,
                    FLOAT,
                ),
                cudnn_loader::cudnnSetConvolutionGroupCount(convolution, 4),
                cudnn_loader::cudnnCreateActivationDescriptor(&raw mut activation),
                cudnn_loader::cudnnSetActivationDescriptor(activation, Activation::CUDNN_ACTIVATION_ELU, NAN, 0.5),
                cudnn_loader::cudnnCreatePoolingDescriptor(&raw mut pooling),
                cudnn_loader::cudnnSetPoolingNdDescriptor(
                    pooling,
                    Pooling::CUDNN_POOLING_MAX,
                    NAN,
                    2,
                    [3, 2].as_ptr(),
                    [1, 0].as_ptr(),
                    [2, 2].as_ptr(),
                ),
                cudnn_loader::cudnnConvolutionForward(
                    null_mut(),
                    one,
                    x,
                    null(),
                    w,
                    null(),
                    convolution,
                    Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
                    null_mut(),
                    77,
                    one,
                    x,
                    null_mut(),
                ),
                cudnn_loader::cudnnActivationForward(null_mut(), activation, one, x, null(), one, x, null_mut()),
                cudnn_loader::cudnnPoolingForward(null_mut(), pooling, one, x, null(), one, x, null_mut()),
                cudnn_loader::cudnnDestroyTensorDescriptor(x),
                cudnn_loader::cudnnDestroyFilterDescriptor(w),
                cudnn_loader::cudnnDestroyConvolutionDescriptor(convolution),
                cudnn_loader::cudnnDestroyActivationDescriptor(activation),
                cudnn_loader::cudnnDestroyPoolingDescriptor(pooling),
                // The address is invalid, and must not be read.
                cudnn_loader::cudnnActivationForward(null_mut(), null_mut(), one, x, null(), one, x, null_mut()),
            ]
        };
        println!("{statuses:?}");
    }
}

/// Calls a function three thousand times. The activation's descriptor changes once, and then back.
pub(crate) fn run_steps() {
    const FLOAT: DataType = DataType::CUDNN_DATA_FLOAT;
    const NAN: Nan = Nan::CUDNN_NOT_PROPAGATE_NAN;
    let one = 1_f32;
    let one = (&raw const one).cast();
    let (mut x, mut activation) = (null_mut(), null_mut());
    // SAFETY: the pointers are valid, and cuDNN refuses to work without a handle.
    unsafe {
        let created = [
            cudnn_loader::cudnnCreateTensorDescriptor(&raw mut x),
            cudnn_loader::cudnnSetTensorNdDescriptor(x, FLOAT, 4, [8, 16, 7, 7].as_ptr(), [784, 49, 7, 1].as_ptr()),
            cudnn_loader::cudnnCreateActivationDescriptor(&raw mut activation),
        ];
        println!("{created:?}");
        for coefficient in [0.5, 0.25, 0.5] {
            let elu = Activation::CUDNN_ACTIVATION_ELU;
            let set = cudnn_loader::cudnnSetActivationDescriptor(activation, elu, NAN, coefficient);
            let call =
                || cudnn_loader::cudnnActivationForward(null_mut(), activation, one, x, null(), one, x, null_mut());
            let statuses: Vec<_> = (0..1000).map(|_| call().0).collect();
            println!("{set:?} {:?}", statuses.iter().max());
        }
    }
}

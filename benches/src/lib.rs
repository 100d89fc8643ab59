//! Implements a common trait for all ways to call cuDNN, so that every benchmark is written once.
//!
//! The benchmarks call three functions. `cudnnGetVersion` has no argument and does almost no work,
//! `cudnnSetTensor4dDescriptor` is a typical small function, and `cudnnConvolutionForward` has thirteen arguments and
//! comes from a fake library that returns immediately.
#![allow(deprecated, reason = "the benchmark needs a function with many arguments")]

pub mod empty_layers;

use std::ffi::CString;
use std::hint::black_box;
use std::path::Path;
use std::ptr::null_mut;

use cudarc::cudnn::sys as cudarc;
use cudnn_sys::signatures::{
    cudnnConvolutionForward as Convolve, cudnnGetVersion as Version, cudnnSetTensor4dDescriptor as SetTensor,
};
use cudnn_sys::{
    cudnnConvolutionFwdAlgo_t as Algorithm, cudnnDataType_t as DataType, cudnnStatus_t as Status,
    cudnnTensorDescriptor_t as RawTensor, cudnnTensorFormat_t as Format,
};
use libloading::os::unix::Library;

/// The directory of the cuDNN that the benchmarks call.
const CUDNN_DIR: &str = env!("CUDNN_DIR");

/// Calls per measurement.
pub const CALLS: u32 = 1000;

/// A way in which a program calls cuDNN.
pub trait CallPath {
    /// The name in the results.
    const NAME: &'static str;

    /// Makes the first call of every function, so that benchmarks measure warm calls only.
    fn ready() -> Self;

    /// `cudnnGetVersion`.
    fn version(&self) -> usize;

    /// `cudnnSetTensor4dDescriptor`.
    fn set_tensor(&self, tensor: Tensor) -> u32;

    /// `cudnnConvolutionForward`.
    fn convolve(&self) -> u32;
}

/// A tensor descriptor, never destroyed.
#[derive(Clone, Copy, Debug)]
pub struct Tensor(RawTensor);

/// Creates a tensor descriptor.
pub fn tensor() -> Tensor {
    let mut tensor = null_mut();
    // SAFETY: the pointer is to a local variable.
    let status = unsafe { cudnn_sys::cudnnCreateTensorDescriptor(&raw mut tensor) };
    assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
    Tensor(tensor)
}

/// Makes [`CALLS`] calls of `cudnnGetVersion`.
#[inline(never)]
pub fn versions<P: CallPath>(path: &P) {
    for _ in 0..CALLS {
        black_box(path.version());
    }
}

/// Makes [`CALLS`] calls of `cudnnSetTensor4dDescriptor`.
#[inline(never)]
pub fn set_tensors<P: CallPath>(path: &P, tensor: Tensor) {
    for _ in 0..CALLS {
        black_box(path.set_tensor(tensor));
    }
}

/// Makes [`CALLS`] calls of `cudnnConvolutionForward`.
#[inline(never)]
pub fn convolutions<P: CallPath>(path: &P) {
    for _ in 0..CALLS {
        black_box(path.convolve());
    }
}

/// Calls every function once.
fn warmed<P: CallPath>(path: P) -> P {
    assert_eq!(path.version(), 92800, "{}", P::NAME);
    assert_eq!((path.set_tensor(tensor()), path.convolve()), (0, 0), "{}", P::NAME);
    path
}

/// This project's loader.
#[derive(Debug)]
pub struct Loader;

/// Direct linking to the sub-libraries.
#[derive(Debug)]
pub struct Linked;

/// A plain pointer to the function in the sub-library.
#[derive(Debug)]
pub struct Pointer(Pointers);

/// NVIDIA's shim, called through a plain pointer.
#[derive(Debug)]
pub struct Shim(Pointers);

/// cudarc's dynamic loading, which goes through NVIDIA's shim.
#[derive(Debug)]
pub struct Cudarc;

/// Implements [`CallPath`] for a type, given a name, a constructor, the three functions, the values of their enums, and
/// the conversion of a status to a number.
macro_rules! call_path {
    (
        $path:ty, $name:literal, $new:expr,
        |$this:ident| ($version:expr, $set_tensor:expr, $convolve:expr),
        ($format:expr, $data_type:expr, $algorithm:expr),
        |$status:ident| $number:expr
    ) => {
        impl CallPath for $path {
            const NAME: &'static str = $name;

            fn ready() -> Self {
                warmed($new)
            }

            #[inline(always)]
            fn version(&self) -> usize {
                let $this = self;
                // SAFETY: the call passes no pointers.
                unsafe { $version() }
            }

            #[inline(always)]
            fn set_tensor(&self, tensor: Tensor) -> u32 {
                let $this = self;
                // SAFETY: the descriptor is live.
                let $status = unsafe { $set_tensor(tensor.0.cast(), $format, $data_type, 32, 64, 56, 56) };
                $number
            }

            #[inline(always)]
            fn convolve(&self) -> u32 {
                let $this = self;
                // SAFETY: the fake library ignores the arguments.
                let $status = unsafe {
                    $convolve(
                        null_mut(),
                        null_mut(),
                        null_mut(),
                        null_mut(),
                        null_mut(),
                        null_mut(),
                        null_mut(),
                        $algorithm,
                        null_mut(),
                        0,
                        null_mut(),
                        null_mut(),
                        null_mut(),
                    )
                };
                $number
            }
        }
    };
}

macro_rules! call_path_of_crate {
    ($path:ident, $name:literal, $crate_:ident) => {
        call_path!(
            $path,
            $name,
            $path,
            |_this| ($crate_::cudnnGetVersion, $crate_::cudnnSetTensor4dDescriptor, $crate_::cudnnConvolutionForward),
            (Format::CUDNN_TENSOR_NCHW, DataType::CUDNN_DATA_FLOAT, Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_GEMM),
            |status| status.0
        );
    };
}

macro_rules! call_path_of_pointers {
    ($path:ident, $name:literal, $files:expr) => {
        call_path!(
            $path,
            $name,
            $path(Pointers::resolve($files)),
            |this| ((this.0.version), (this.0.set_tensor), (this.0.convolve)),
            (Format::CUDNN_TENSOR_NCHW, DataType::CUDNN_DATA_FLOAT, Algorithm::CUDNN_CONVOLUTION_FWD_ALGO_GEMM),
            |status| status.0
        );
    };
}

call_path_of_crate!(Loader, "this loader", cudnn_loader);
call_path_of_crate!(Linked, "linked to the sub-library", cudnn_sys);
call_path_of_pointers!(
    Pointer,
    "a plain function pointer",
    ["libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9"]
);
call_path_of_pointers!(Shim, "NVIDIA's shim", ["libcudnn.so.9"; 3]);
call_path!(
    Cudarc,
    "cudarc, dynamic loading",
    Cudarc,
    |_this| (cudarc::cudnnGetVersion, cudarc::cudnnSetTensor4dDescriptor, cudarc::cudnnConvolutionForward),
    (
        cudarc::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW,
        cudarc::cudnnDataType_t::CUDNN_DATA_FLOAT,
        cudarc::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_GEMM
    ),
    |status| status as u32
);

/// Function pointers, resolved once.
#[derive(Debug)]
struct Pointers {
    version: Version,
    set_tensor: SetTensor,
    convolve: Convolve,
}

impl Pointers {
    /// Resolves every function in the library that defines it.
    fn resolve(files: [&str; 3]) -> Self {
        let [version, set_tensor, convolve] = files;
        Pointers {
            version: symbol(version, "cudnnGetVersion"),
            set_tensor: symbol(set_tensor, "cudnnSetTensor4dDescriptor"),
            convolve: symbol(convolve, "cudnnConvolutionForward"),
        }
    }
}

fn symbol<F: Copy>(file: &str, name: &str) -> F {
    // SAFETY: the libraries belong to cuDNN.
    let library = unsafe { Library::new(Path::new(CUDNN_DIR).join(file)) }.expect("the library is there");
    let name = CString::new(name).expect("a name");
    // SAFETY: `F` is the function's type.
    let symbol = unsafe { library.get::<F>(name.as_bytes_with_nul()) };
    let symbol = *symbol.expect("the function is there");
    std::mem::forget(library);
    symbol
}

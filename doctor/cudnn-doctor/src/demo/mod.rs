//! Demonstrates cuDNN step by step with timings, for `demo` and the load test of `check`.

use std::ptr::null_mut;
use std::time::Instant;

use cudnn_backend::gpu::{Gpu, NoGpu};
use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::outln;
use cudnn_loader::{self as cudnn, Function, Options};
use cudnn_probe::Installation;

mod convolution;
mod progress;

pub(crate) use progress::{DemoError, HELP};
use progress::{Progress, driver_failure};

pub(crate) fn run_demo(options: &Options) -> Result<(), DemoError> {
    outln!("\nFirst calls, which load the libraries they need:");
    let mut progress = Progress::default();
    let installation = first_calls(options, &mut progress)?;
    outln!("\ncuDNN {} in {}", installation.version, installation.dir.printable());
    begin(Work::StartDriver, "started the driver");
    match first_gpu()? {
        Ok(gpu) => convolution::run(&gpu, &mut progress)?,
        Err(reason) => {
            let except = if progress.lacks_driver { ", except what needs the driver" } else { "" };
            outln!("\nThere is no GPU to compute on ({reason}). Everything up to this point works{except}.");
        }
    }
    Ok(())
}

/// Runs only the convolution with the loaded cuDNN, if there is a GPU.
pub(crate) fn run_convolution() -> Result<(), DemoError> {
    match first_gpu()? {
        Ok(gpu) => convolution::run(&gpu, &mut Progress::default())?,
        Err(reason) => outln!("\nThere is no GPU to compute on: {reason}."),
    }
    Ok(())
}

/// Returns the first GPU, or why all are unavailable. Driver failures are errors.
fn first_gpu() -> Result<Result<Gpu, NoGpu>, DemoError> {
    match Gpu::first() {
        Err(NoGpu::Driver(error)) => Err(driver_failure(error)),
        Err(error @ (NoGpu::Start(_) | NoGpu::NoFunction(_))) => Err(driver_failure(error)),
        gpu => Ok(gpu),
    }
}

fn first_calls(options: &Options, progress: &mut Progress) -> Result<&'static Installation, DemoError> {
    begin(Work::Load, "loaded cuDNN");
    let start = Instant::now();
    let installation = options.load()?;
    // SAFETY: the function has no parameters.
    let version = unsafe { cudnn::cudnnGetVersion() };
    progress.call("cudnnGetVersion", start);
    // SAFETY: as above.
    let (cudart, device) = unsafe { (cudnn::cudnnGetCudartVersion(), cudnn::cudnnGetMaxDeviceVersion()) };
    outln!("     version {version}, CUDA runtime {cudart}, newest supported device {device}");
    progress.first_call(Function::CudnnCreateTensorDescriptor, || {
        let mut tensor = null_mut();
        let (format, ty) = (cudnn::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC, cudnn::cudnnDataType_t::CUDNN_DATA_HALF);
        // SAFETY: the first call creates the descriptor that the others use.
        unsafe {
            cudnn::check!(cudnn::cudnnCreateTensorDescriptor(&mut tensor))?;
            let set = cudnn::check!(cudnn::cudnnSetTensor4dDescriptor(tensor, format, ty, 32, 64, 56, 56));
            cudnn::check!(cudnn::cudnnDestroyTensorDescriptor(tensor))?;
            set
        }
    })?;
    progress.first_call(Function::CudnnCreateConvolutionDescriptor, || {
        let mut convolution = null_mut();
        // SAFETY: as above.
        unsafe {
            cudnn::check!(cudnn::cudnnCreateConvolutionDescriptor(&mut convolution))?;
            cudnn::check!(cudnn::cudnnDestroyConvolutionDescriptor(convolution))
        }
    })?;
    progress.first_call(Function::CudnnCreateRNNDescriptor, || {
        let mut rnn = null_mut();
        // SAFETY: as above.
        unsafe {
            cudnn::check!(cudnn::cudnnCreateRNNDescriptor(&mut rnn))?;
            cudnn::check!(cudnn::cudnnDestroyRNNDescriptor(rnn))
        }
    })?;
    // Resolve the function without a call, because it needs a GPU.
    progress.first_call(Function::CudnnCausalConv1dForward, || Ok(()))?;
    progress.first_call(Function::CudnnBackendCreateDescriptor, || convolution::input().descriptor().map(drop))?;
    Ok(installation)
}

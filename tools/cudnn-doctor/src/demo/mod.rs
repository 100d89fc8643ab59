//! Demonstrates cuDNN step by step with timings, for `demo` and for the load test of `check`. The caller chooses the
//! installation.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::time::Instant;

use cudnn_backend::gpu::{Gpu, NoGpu};
use cudnn_frameworks::mapped_libraries;
use cudnn_loader::{self as cudnn, Function, Library, LoadErrorKind, Options, cudnnStatus_t, loaded_library};
use cudnn_probe::Installation;

use crate::child_report::{Work, begin};
use crate::escape::Printable;
use crate::output::outln;

mod convolution;

/// An error message that includes help.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The help for a failure inside cuDNN.
pub(crate) const HELP: &str = "to see cuDNN's own log, set CUDNN_LOGLEVEL_DBG=2 and CUDNN_LOGDEST_DBG=stderr; to try another \
                    installation, set CUDNN_LOADER_DIR to its directory";

/// Loads cuDNN with these options, calls into all sub-libraries, and runs the convolution.
pub(crate) fn run_demo(options: &Options) -> Result<(), Failure> {
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

/// Runs only the convolution, with the loaded cuDNN. Prints a message if no GPU is available.
pub(crate) fn run_convolution() -> Result<(), Failure> {
    match first_gpu()? {
        Ok(gpu) => convolution::run(&gpu, &mut Progress::default())?,
        Err(reason) => outln!("\nThere is no GPU to compute on: {reason}."),
    }
    Ok(())
}

/// Returns the first GPU, or the reason why none is available. A missing GPU does not fail the demo.
fn first_gpu() -> Result<Result<Gpu, NoGpu>, Failure> {
    match Gpu::first() {
        Err(NoGpu::Driver(error)) => Err(driver_failure(error)),
        Err(error @ (NoGpu::Start(_) | NoGpu::NoFunction(_))) => Err(driver_failure(error)),
        gpu => Ok(gpu),
    }
}

/// Adds help to a driver error.
fn driver_failure(error: impl Display) -> Failure {
    format!(
        "the GPU cannot be used: {error}\nhelp: check that `nvidia-smi` works and lists the GPU as free; if it does not, \
         reinstall the driver, or reboot if it was just updated"
    )
    .into()
}

/// Makes the first call into every sub-library.
fn first_calls(options: &Options, progress: &mut Progress) -> Result<&'static Installation, Failure> {
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
    // The function is resolved but not called, because it needs a GPU.
    progress.first_call(Function::CudnnCausalConv1dForward, || Ok(()))?;
    progress.first_call(Function::CudnnBackendCreateDescriptor, || convolution::input().descriptor().map(drop))?;
    Ok(installation)
}

/// Prints the progress of the demo.
#[derive(Default)]
struct Progress {
    libraries: Vec<PathBuf>,
    /// Whether a step failed only because the driver is missing.
    lacks_driver: bool,
}

impl Progress {
    /// Makes the first call into a sub-library, then prints the loaded libraries and the elapsed time. A sub-library
    /// that the installation does not include is not treated as a failure.
    fn first_call(
        &mut self,
        function: Function,
        call: impl FnOnce() -> Result<(), cudnn::Error>,
    ) -> Result<(), Failure> {
        begin(Work::Load, format!("called {function} for the first time"));
        let start = Instant::now();
        let result = function.resolve().map(|_| call());
        self.call(function.name(), start);
        match result {
            Ok(Ok(())) => {}
            // This is an error of cuDNN itself, whose engines open the driver's library.
            Ok(Err(error))
                if error.status == cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
                    && function == Function::CudnnBackendCreateDescriptor
                    && !Gpu::has_driver() =>
            {
                outln!(
                    "     failed: this cuDNN's engines need libcuda.so.1, the driver's library, which is not installed"
                );
                self.lacks_driver = true;
            }
            Ok(Err(error)) => return Err(format!("{error:#}\nhelp: {HELP}").into()),
            Err(error)
                if matches!(error.kind(), LoadErrorKind::LibraryMissing | LoadErrorKind::FunctionTooNew { .. }) =>
            {
                outln!("     the installation does not include {}", function.library());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Prints the libraries that a call loaded, with the elapsed time.
    fn call(&mut self, name: &str, start: Instant) {
        let time = milliseconds(start);
        self.opened();
        outln!("  {name}: {time:.2} ms");
    }

    /// Prints newly loaded libraries. Libraries opened by the loader come first, with their load times, followed by
    /// libraries that cuDNN opened.
    fn opened(&mut self) {
        for opened in Library::WITH_API.iter().filter_map(|library| loaded_library(*library)) {
            if self.is_new(&opened.path) {
                outln!("     loaded {} in {:.2} ms", opened.path.printable(), opened.duration.as_secs_f64() * 1e3);
            }
        }
        for mapped in mapped_libraries(std::process::id()).unwrap_or_default() {
            let name = mapped.path.file_name().unwrap_or_default();
            if name.as_encoded_bytes().starts_with(b"libcudnn") && self.is_new(&mapped.path) {
                outln!("     loaded {}", mapped.path.printable());
            }
        }
    }

    fn is_new(&mut self, path: &Path) -> bool {
        let path = cudnn_probe::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_new = !self.libraries.contains(&path);
        self.libraries.extend(is_new.then_some(path));
        is_new
    }
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

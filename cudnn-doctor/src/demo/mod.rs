//! `demo`: the whole way once, from nothing to a convolution, each step shown with what it cost.

use std::path::PathBuf;
use std::time::Instant;

use cudnn_loader::{self as cudnn, Function, Options, SubLibrary, cudnnStatus_t};
use cudnn_probe::{Environment, Installation, Requirements, Search, examine};

mod convolution;
mod descriptor;
mod gpu;
mod reference;

/// The release that is fetched where no cuDNN is found: real, and the smallest that there is.
const FETCHED: &str = "jit-cu12-9.19.0";

/// The options of `demo`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Never fetch anything: fail where no cuDNN is found.
    #[arg(long)]
    offline: bool,
}

/// A failure, as a sentence with a cure.
pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = choose(arguments)?;
    let installation = options.load()?;
    println!("\nFirst calls, each loading what it needs:");
    first_calls()?;
    println!("\ncuDNN {} in {:?}", installation.version, installation.folder);
    match gpu::Gpu::first()? {
        Ok(gpu) => convolution::run(&gpu),
        Err(none) => {
            println!("\nNo GPU to compute on ({none}), so the demo ends here: everything up to this point works.");
            Ok(())
        }
    }
}

/// Shows what is installed, and decides: the loader's own choice, or a release fetched for want of one.
fn choose(arguments: &Arguments) -> Result<Options, Failure> {
    let found = installed();
    for (index, installation) in found.iter().enumerate() {
        let mark = if index == 0 { "->" } else { "  " };
        let cuda = installation.cuda_major.or_else(|| installation.cuda_major_of_code());
        let cuda = cuda.map_or("CUDA unknown".into(), |major| format!("CUDA {major}"));
        println!(
            "{mark} cuDNN {} ({cuda}) in {:?}: {}",
            installation.version, installation.folder, installation.origin
        );
    }
    match found.first() {
        Some(first) => {
            println!("Taking the marked one: {} comes first in the search.", first.origin);
            Ok(Options::new())
        }
        None if std::env::var_os(cudnn_probe::DIR_VARIABLE).is_some_and(|value| !value.is_empty()) => {
            // Who named a folder wants that one: the loader says what is wrong with it.
            Ok(Options::new())
        }
        None => {
            println!("No cuDNN is installed here.");
            fetch(arguments).map(|folder| Options::new().path(folder))
        }
    }
}

/// Every usable installation that the search comes upon, each once, the one that would be used first.
fn installed() -> Vec<Installation> {
    let mut found: Vec<Installation> = Vec::new();
    for candidate in Search::new(Environment::current()).candidates() {
        if let Ok(installation) = examine(&candidate, &Requirements::default())
            && found.iter().all(|other| other.folder != installation.folder)
        {
            found.push(installation);
        }
    }
    found
}

fn fetch(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let release = cudnn_fetch::release(FETCHED)?;
    let network = if arguments.offline { cudnn_fetch::Network::Forbidden } else { cudnn_fetch::Network::Allowed };
    println!("Taking {} {} ({} MB to fetch, once).", release.package, release.version, release.megabytes);
    let unpacked = cudnn_fetch::fetch(release, network)?;
    Ok(release.lib_dir(&unpacked))
}

/// Makes one first call into each sub-library.
fn first_calls() -> Result<(), Failure> {
    let mut shown = Vec::new();
    show_opened(&mut shown);
    // SAFETY: the three functions take nothing.
    let (version, cudart, device) = timed("cudnnGetVersion", || unsafe {
        (cudnn::cudnnGetVersion(), cudnn::cudnnGetCudartVersion(), cudnn::cudnnGetMaxDeviceVersion())
    });
    println!("     version {version}, CUDA runtime {cudart}, newest device that it knows {device}");
    descriptor_of(&mut shown, Function::CudnnCreateTensorDescriptor, || {
        let mut tensor = std::ptr::null_mut();
        // SAFETY: the first writes a descriptor to where it is told; the others take that descriptor.
        unsafe {
            cudnn::cudnnCreateTensorDescriptor(&mut tensor).result()?;
            let set = cudnn::cudnnSetTensor4dDescriptor(
                tensor,
                cudnn::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC,
                cudnn::cudnnDataType_t::CUDNN_DATA_HALF,
                32,
                64,
                56,
                56,
            );
            cudnn::cudnnDestroyTensorDescriptor(tensor).result()?;
            set.result()
        }
    })?;
    descriptor_of(&mut shown, Function::CudnnCreateConvolutionDescriptor, || {
        let mut convolution = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            cudnn::cudnnCreateConvolutionDescriptor(&mut convolution).result()?;
            cudnn::cudnnDestroyConvolutionDescriptor(convolution).result()
        }
    })?;
    descriptor_of(&mut shown, Function::CudnnCreateRNNDescriptor, || {
        let mut rnn = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            cudnn::cudnnCreateRNNDescriptor(&mut rnn).result()?;
            cudnn::cudnnDestroyRNNDescriptor(rnn).result()
        }
    })?;
    descriptor_of(&mut shown, Function::CudnnBackendCreateDescriptor, || {
        descriptor::Descriptor::tensor(1, &[32, 64, 56, 56], &[64 * 56 * 56, 1, 56 * 64, 64])
            .map(drop)
            .map_err(|error| error.status)
    })
}

/// Calls into a sub-library for the first time, and shows what that loaded and cost. A sub-library that this
/// installation does not include is no failure.
fn descriptor_of(
    shown: &mut Vec<SubLibrary>,
    function: Function,
    call: impl FnOnce() -> Result<(), cudnnStatus_t>,
) -> Result<(), Failure> {
    let result = timed(function.name(), call);
    show_opened(shown);
    match result {
        Ok(()) => Ok(()),
        Err(cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE) => {
            println!("     this installation does not include {}", function.library());
            // Read, so that a later error does not show it.
            last_error();
            Ok(())
        }
        Err(cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED) if !gpu::has_driver() => {
            println!("     this cuDNN's engines need libcuda.so.1, the driver's library, which is not here");
            last_error();
            Ok(())
        }
        Err(status) => Err(format!("{function} gave {status:?}: {}", last_error()).into()),
    }
}

fn timed<T>(name: &str, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    println!("  {name}: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    result
}

/// Prints the libraries that have been loaded since the last time.
fn show_opened(shown: &mut Vec<SubLibrary>) {
    for library in SubLibrary::ALL.iter().copied() {
        if let Some(opened) = library.opened()
            && !shown.contains(&library)
        {
            println!("     loaded {:?} in {:.2} ms", opened.path, opened.took.as_secs_f64() * 1e3);
            shown.push(library);
        }
    }
}

/// What cuDNN, or the loader, last said on this thread.
pub(crate) fn last_error() -> String {
    let mut text = [0u8; 4096];
    // SAFETY: the buffer has the length that is said.
    unsafe { cudnn::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let text = std::ffi::CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

//! `demo`: the whole way once, from nothing to a convolution, each step shown with what it cost.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cudnn_backend::gpu::Gpu;
use cudnn_loader::{self as cudnn, Function, LoadErrorKind, Options, SubLibrary, cudnnStatus_t};
use cudnn_probe::{Host, Installation, ProbeError, RejectedCandidate, Requirements, Search, check_dir};

use crate::output::outln;

mod convolution;
mod gpu;

/// The release that is fetched where no cuDNN is found: real, and the smallest that there is.
const FALLBACK_RELEASE: &str = "jit-cu12-9.19.0";

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
    outln!("\nFirst calls, each loading what it needs:");
    let mut shown = Progress::default();
    let installation = first_calls(&options, &mut shown)?;
    outln!("\ncuDNN {} in {:?}", installation.version, installation.dir);
    match gpu::first()? {
        Ok(gpu) => convolution::run(&gpu, &mut shown),
        Err(none) => {
            let but = if shown.wanted_a_driver { ", but for what needs the driver" } else { "" };
            outln!("\nNo GPU to compute on ({none}), so the demo ends here: everything up to this point works{but}.");
            Ok(())
        }
    }
}

/// The convolution alone, with the cuDNN that would be used; says so where there is no GPU.
pub(crate) fn convolve() -> Result<(), Failure> {
    Options::new().load()?;
    match gpu::first()? {
        Ok(gpu) => convolution::run(&gpu, &mut Progress::default()),
        Err(none) => {
            outln!("\nNo GPU to compute on: {none}.");
            Ok(())
        }
    }
}

/// Shows what is installed, and decides: the loader's own choice, or a release fetched for want of one.
fn choose(arguments: &Arguments) -> Result<Options, Failure> {
    let search = Search::new(Host::current());
    let (found, refused) = installed(&search);
    for (index, installation) in found.iter().enumerate() {
        let mark = if index == 0 { "->" } else { "  " };
        let cuda = installation.cuda_major.or_else(|| installation.cuda_major_from_gpu_code());
        let cuda = cuda.map_or("CUDA unknown".into(), |major| format!("CUDA {major}"));
        outln!("{mark} cuDNN {} ({cuda}) in {:?}: {}", installation.version, installation.dir, installation.origin);
    }
    for RejectedCandidate { candidate, error: refusal } in &refused {
        outln!("!! {:?} ({}) {refusal}", candidate.dir, candidate.origin);
        if let Some(cure) = refusal.help() {
            outln!("   {cure}");
        }
    }
    match found.first() {
        Some(first) => {
            outln!("Taking the marked one: {} comes first in the search.", first.origin);
            Ok(Options::new())
        }
        // Who named a folder wants that one: the loader says what is wrong with it.
        None if search.explicit_candidate().is_some() => Ok(Options::new()),
        None => {
            outln!(
                "{}",
                if refused.is_empty() { "No cuDNN is installed here." } else { "No other cuDNN is installed here." }
            );
            fetch(arguments).map(|folder| Options::new().path(folder))
        }
    }
}

/// Every usable installation that the search comes upon, each once, the one that would be used first; and every folder
/// that holds something and cannot be used.
fn installed(search: &Search) -> (Vec<Installation>, Vec<RejectedCandidate>) {
    let (mut found, mut refused) = (Vec::<Installation>::new(), Vec::<RejectedCandidate>::new());
    for candidate in search.candidates() {
        match check_dir(&candidate, &Requirements::default()) {
            Ok(installation) if found.iter().all(|other| other.dir != installation.dir) => found.push(installation),
            Ok(_) | Err(ProbeError::NotFound) => {}
            Err(refusal) if refused.iter().all(|other| other.candidate.dir != candidate.dir) => {
                refused.push(RejectedCandidate { candidate, error: refusal });
            }
            Err(_) => {}
        }
    }
    (found, refused)
}

fn fetch(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let release = cudnn_fetch::release(FALLBACK_RELEASE)?;
    let network = if arguments.offline { cudnn_fetch::Network::Forbidden } else { cudnn_fetch::Network::Allowed };
    outln!("Taking {} {} ({} MB to fetch, once).", release.package, release.version, release.megabytes);
    let unpacked = cudnn_fetch::fetch(release, network)?;
    Ok(release.lib_dir(&unpacked))
}

/// Makes one first call into each sub-library.
fn first_calls(options: &Options, shown: &mut Progress) -> Result<&'static Installation, Failure> {
    let start = Instant::now();
    let installation = options.load()?;
    // SAFETY: the three functions take nothing.
    let version = unsafe { cudnn::cudnnGetVersion() };
    shown.call("cudnnGetVersion", start);
    // SAFETY: as above.
    let (cudart, device) = unsafe { (cudnn::cudnnGetCudartVersion(), cudnn::cudnnGetMaxDeviceVersion()) };
    outln!("     version {version}, CUDA runtime {cudart}, newest device that it knows {device}");
    shown.first_call(Function::CudnnCreateTensorDescriptor, || {
        let mut tensor = std::ptr::null_mut();
        // SAFETY: the first writes a descriptor to where it is told; the others take that descriptor.
        unsafe {
            cudnn::cudnnCreateTensorDescriptor(&mut tensor).to_result()?;
            let set = cudnn::cudnnSetTensor4dDescriptor(
                tensor,
                cudnn::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC,
                cudnn::cudnnDataType_t::CUDNN_DATA_HALF,
                32,
                64,
                56,
                56,
            );
            cudnn::cudnnDestroyTensorDescriptor(tensor).to_result()?;
            set.to_result()
        }
    })?;
    shown.first_call(Function::CudnnCreateConvolutionDescriptor, || {
        let mut convolution = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            cudnn::cudnnCreateConvolutionDescriptor(&mut convolution).to_result()?;
            cudnn::cudnnDestroyConvolutionDescriptor(convolution).to_result()
        }
    })?;
    shown.first_call(Function::CudnnCreateRNNDescriptor, || {
        let mut rnn = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            cudnn::cudnnCreateRNNDescriptor(&mut rnn).to_result()?;
            cudnn::cudnnDestroyRNNDescriptor(rnn).to_result()
        }
    })?;
    // What ext does needs a GPU: it is found and not called.
    shown.first_call(Function::CudnnCausalConv1dForward, || Ok(()))?;
    shown.first_call(Function::CudnnBackendCreateDescriptor, || {
        convolution::input().descriptor().map(drop).map_err(|error| error.status)
    })?;
    Ok(installation)
}

/// What has been shown so far.
#[derive(Default)]
pub(crate) struct Progress {
    libraries: Vec<PathBuf>,
    /// Something failed for want of the driver alone.
    wanted_a_driver: bool,
}

impl Progress {
    /// Calls into a sub-library for the first time, and shows what that loaded and cost. A sub-library that this
    /// installation does not include is no failure.
    fn first_call(
        &mut self,
        function: Function,
        call: impl FnOnce() -> Result<(), cudnnStatus_t>,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let result = function.resolve().map(|_| call());
        self.call(function.name(), start);
        match result {
            Ok(Ok(())) => Ok(()),
            // Found and called: it is cuDNN that cannot go on.
            Ok(Err(cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED))
                if function == Function::CudnnBackendCreateDescriptor && !Gpu::has_driver() =>
            {
                outln!("     this cuDNN's engines need libcuda.so.1, the driver's library, which is not here");
                self.wanted_a_driver = true;
                // Read, so that a later error does not show it.
                last_error();
                Ok(())
            }
            Ok(Err(status)) => Err(format!("{function} gave {status:?}: {}\n{HELP}", last_error()).into()),
            Err(error) => match error.kind() {
                LoadErrorKind::LibraryMissing | LoadErrorKind::FunctionTooNew { .. } => {
                    outln!("     this installation does not include {}", function.library());
                    Ok(())
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Shows what a call has loaded, and what it cost.
    fn call(&mut self, name: &str, start: Instant) {
        let took = start.elapsed();
        self.opened();
        outln!("  {name}: {:.2} ms", took.as_secs_f64() * 1e3);
    }

    /// Shows the libraries that have been loaded since the last time: those that the loader opened, with
    /// the time that it took, then those that cuDNN wanted.
    pub(crate) fn opened(&mut self) {
        for opened in SubLibrary::ALL.iter().filter_map(|library| library.loaded()) {
            if self.is_new(&opened.path) {
                outln!("     loaded {:?} in {:.2} ms", opened.path, opened.duration.as_secs_f64() * 1e3);
            }
        }
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        for line in maps.split(|byte| *byte == b'\n') {
            let path =
                line.iter().position(|byte| *byte == b'/').and_then(|start| line.get(start..)).unwrap_or_default();
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            let is_cudnn = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libcudnn"));
            if is_cudnn && self.is_new(path) {
                outln!("     loaded {path:?}");
            }
        }
    }

    fn is_new(&mut self, path: &Path) -> bool {
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_new = !self.libraries.contains(&path);
        if is_new {
            self.libraries.push(path);
        }
        is_new
    }
}

/// What to do about a failure inside cuDNN.
pub(crate) const HELP: &str = "For cuDNN's own account of it set CUDNN_LOGLEVEL_DBG=2 and CUDNN_LOGDEST_DBG=stderr; \
                                   to try another installation set CUDNN_LOADER_DIR to its folder.";

/// What cuDNN, or the loader, last said on this thread.
pub(crate) fn last_error() -> String {
    let mut text = [0u8; 4096];
    // SAFETY: the buffer has the length that is said.
    unsafe { cudnn::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let text = std::ffi::CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

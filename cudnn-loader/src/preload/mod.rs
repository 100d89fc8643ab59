//! Loading ahead of the first use: files, libraries, CUDA contexts and cuDNN's engines, in parallel where cuDNN and
//! ld.so allow it.
//!
//! ```no_run
//! use cudnn_loader::preload::Preload;
//!
//! let handle = Preload::new().engines(true).start();
//! // ... read the model's weights meanwhile ...
//! println!("{}", handle.join()?); // what each step cost
//! # Ok::<(), cudnn_loader::preload::PreloadError>(())
//! ```

mod driver;
mod engines;
mod readahead;
mod report;
mod run;

use std::thread::JoinHandle;

pub use driver::DriverError;
pub use report::{PreloadError, Report, Step, StepOutcome, StepReport};

use crate::function::Function;
use crate::options::Options;
use crate::sub_library::SubLibrary;
use crate::thread::signals::with_signals_blocked;

/// The sub-libraries that have a version check, with its function. Each check needs a context; graph's creates one.
pub const VERSION_CHECKS: &[(SubLibrary, Function)] = &[
    (SubLibrary::Graph, Function::CudnnGraphVersionCheck),
    (SubLibrary::Ops, Function::CudnnOpsVersionCheck),
    (SubLibrary::Cnn, Function::CudnnCnnVersionCheck),
    (SubLibrary::Adv, Function::CudnnAdvVersionCheck),
];

/// Selects what to load ahead: by default every sub-library of the installation, and the current device's context.
///
/// A log callback (`cudnnSetCallback`) of a C++ program must not throw while this runs: it may be called from internal
/// threads.
#[derive(Clone, Debug)]
#[must_use]
pub struct Preload {
    options: Options,
    libraries: Vec<SubLibrary>,
    devices: Devices,
    engines: bool,
    device_description: Option<String>,
}

/// The devices whose contexts to create.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Devices {
    /// The device of the calling thread's context; the first device if the thread has none.
    Current,
    /// All devices, in parallel.
    All,
    /// The devices with these numbers, in parallel. An empty list creates no context and needs no driver.
    List(Vec<i32>),
}

impl Default for Preload {
    fn default() -> Self {
        Preload {
            options: Options::new(),
            libraries: SubLibrary::ALL.to_vec(),
            devices: Devices::Current,
            engines: false,
            device_description: None,
        }
    }
}

impl Preload {
    /// Every sub-library of the installation, and the context of the current device.
    pub fn new() -> Self {
        Preload::default()
    }

    /// Loads an installation that meets these options.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Loads these sub-libraries and their dependencies. Skips those that the installation does not include.
    pub fn libraries(mut self, libraries: &[SubLibrary]) -> Self {
        self.libraries = libraries.to_vec();
        self
    }

    /// Creates the contexts of these devices.
    pub fn devices(mut self, devices: Devices) -> Self {
        self.devices = devices;
        self
    }

    /// Also makes cuDNN register its engines, in parallel with the creation of the context: the first plan or workspace
    /// query then takes some 100 ms less. Skipped before cuDNN 9.8, which needs a context for it, and if cuBLASLt is
    /// missing, because cuDNN would abort.
    pub fn engines(mut self, engines: bool) -> Self {
        self.engines = engines;
        self
    }

    /// Registers the engines for the device with this description (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`) and not
    /// for a general one.
    ///
    /// # Safety
    /// The description is one that cuDNN made: cuDNN corrupts memory on some malformed ones.
    pub unsafe fn device_description(mut self, json: impl Into<String>) -> Self {
        self.device_description = Some(json.into());
        self
    }

    /// Preloads, and waits for the end. Any thread may call it, and again: what is loaded already costs nothing.
    ///
    /// # Errors
    /// The first step that failed; the other steps still run.
    pub fn run(&self) -> Result<Report, PreloadError> {
        self.run_with_progress(|_| {})
    }

    /// Like [`Preload::run`], but calls `progress` when a step ends, in the thread that did it.
    ///
    /// # Errors
    /// See [`Preload::run`].
    pub fn run_with_progress(&self, progress: impl Fn(&StepReport) + Send + Sync) -> Result<Report, PreloadError> {
        let recorder = run::Recorder::new(&progress);
        run::execute(self, &recorder);
        recorder.into_result()
    }

    /// Preloads in a background thread.
    pub fn start(self) -> PreloadHandle {
        let preload = self.clone();
        let thread = std::thread::Builder::new().name("cudnn-preload".into());
        let thread = with_signals_blocked(|| thread.spawn(move || preload.run()));
        PreloadHandle(thread.map_err(|_| Box::new(self)))
    }
}

/// A preload in a background thread. It continues if the handle is dropped.
#[derive(Debug)]
pub struct PreloadHandle(Result<JoinHandle<Result<Report, PreloadError>>, Box<Preload>>);

impl PreloadHandle {
    /// Waits for the end.
    ///
    /// # Errors
    /// See [`Preload::run`].
    pub fn join(self) -> Result<Report, PreloadError> {
        match self.0 {
            Ok(thread) => thread.join().unwrap_or_else(|_| Preload::new().run()),
            // The system had no thread left, so this thread does the work.
            Err(preload) => preload.run(),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().map_or(true, JoinHandle::is_finished)
    }
}

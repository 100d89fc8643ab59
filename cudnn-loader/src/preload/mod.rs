//! Loads cuDNN ahead of time: files, libraries, CUDA contexts and engines, in parallel where cuDNN and ld.so allow it.
//!
//! ```no_run
//! use cudnn_loader::preload::Preload;
//!
//! let handle = Preload::new().engines(true).start();
//! // ... read the model's weights in the meantime ...
//! println!("{}", handle.join()?); // the duration of each step
//! # Ok::<(), cudnn_loader::preload::PreloadError>(())
//! ```

mod critical;
mod driver;
mod engines;
pub mod pages;
mod readahead;
mod report;
mod run;

use std::sync::{Arc, Mutex};

use cudnn_probe::Library;
use cudnn_sys::signatures;
pub use driver::DriverError;
pub use report::{PreloadError, Report, Step, StepOutcome, StepReport};

use self::pages::ListLocations;
use crate::dl;
use crate::error_strings::listen_if_verbose;
use crate::function::Function;
use crate::logging;
use crate::options::Options;
use crate::sync::primitives::lock;
use crate::thread::reentrancy::ReentrancyGuard;
use crate::thread::spawn::{DOES_INTERNAL_WORK, is_internal_thread, spawn_detached};

/// Returns whether a preload has called this code, for example through a log callback, a library's constructor, or a
/// thread notification on Windows. A preload that starts there could start another one, without end.
pub fn is_nested() -> bool {
    DOES_INTERNAL_WORK.get() || is_internal_thread()
}

const NESTED: &str = "called by a preload";

/// The sub-libraries that have a version check, with the function. Each check needs a context; graph's check creates
/// one.
pub const VERSION_CHECKS: &[(Library, Function)] = &[
    (Library::Graph, Function::CudnnGraphVersionCheck),
    (Library::Ops, Function::CudnnOpsVersionCheck),
    (Library::Cnn, Function::CudnnCnnVersionCheck),
    (Library::Adv, Function::CudnnAdvVersionCheck),
];

/// The type of the functions of [`VERSION_CHECKS`].
pub type VersionCheck = signatures::cudnnGraphVersionCheck;

const _: fn(
    signatures::cudnnOpsVersionCheck,
    signatures::cudnnCnnVersionCheck,
    signatures::cudnnAdvVersionCheck,
) -> [VersionCheck; 3] = |ops, cnn, adv| [ops, cnn, adv];

/// Selects what to load ahead of time. By default, this is every sub-library of the installation and the context of the
/// current device.
///
/// While a preload runs, a C++ program's log callback (`cudnnSetCallback`) must not throw, because internal threads may
/// call it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Preload {
    options: Options,
    libraries: Vec<Library>,
    devices: Devices,
    engines: bool,
    device_description: Option<String>,
    loads_nothing: bool,
    /// The locations of page lists, read from the environment when the preload starts.
    page_lists: Option<ListLocations>,
}

/// The devices to create contexts for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Devices {
    /// The device of the calling thread's context, or the first device without a context.
    Current,
    /// All devices, in parallel.
    All,
    /// The devices with these numbers, in parallel. An empty list creates no contexts and needs no driver.
    List(Vec<i32>),
}

impl Default for Preload {
    fn default() -> Self {
        Preload {
            options: Options::new(),
            libraries: Library::WITH_API.to_vec(),
            devices: Devices::Current,
            engines: false,
            device_description: None,
            loads_nothing: false,
            page_lists: None,
        }
    }
}

impl Preload {
    /// Selects every sub-library of the installation and the context of the current device.
    pub fn new() -> Self {
        Preload::default()
    }

    /// Loads an installation that meets these options.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Loads these sub-libraries and their dependencies. Skips libraries that the installation does not include.
    pub fn libraries(mut self, libraries: &[Library]) -> Self {
        self.libraries = libraries.to_vec();
        self
    }

    /// Creates the contexts of these devices.
    pub fn devices(mut self, devices: Devices) -> Self {
        self.devices = devices;
        self
    }

    /// Also makes cuDNN register engines while the context is being created. This shortens the first plan or workspace
    /// query by about 100 ms.
    ///
    /// Skipped before cuDNN 9.8, which needs a context for the registration. Also skipped if cuBLASLt is missing,
    /// because cuDNN would abort.
    pub fn engines(mut self, engines: bool) -> Self {
        self.engines = engines;
        self
    }

    /// Only makes the kernel read the files ahead and creates contexts through the driver, without loading cuDNN. Any
    /// thread may exit the process during this preload, because only the driver registers destructors.
    pub fn loading_nothing(mut self) -> Self {
        self.loads_nothing = true;
        self
    }

    /// Registers the engines for the device with this description (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`) instead
    /// of a generic device.
    ///
    /// # Safety
    /// cuDNN must have produced the description, because some malformed descriptions make it corrupt memory.
    pub unsafe fn device_description(mut self, json: impl Into<String>) -> Self {
        self.device_description = Some(json.into());
        self
    }

    /// Preloads and waits until the preload has finished. Any thread may call this at any time; repeated calls are
    /// cheap.
    ///
    /// In a library's constructor and in a `dlmopen` namespace, all steps run in this thread and the context is
    /// skipped, because other threads would wait for ld.so's lock. If a preload itself calls this, for example through
    /// a log callback, the call returns immediately and the report contains one skipped step.
    ///
    /// # Errors
    /// Returns the first step that failed. The other steps still run.
    pub fn run(&self) -> Result<Report, PreloadError> {
        self.run_with_progress(|_| {})
    }

    /// Like [`Preload::run`], but calls `progress` after every step, in the thread that executed it.
    ///
    /// # Errors
    /// See [`Preload::run`].
    pub fn run_with_progress(&self, progress: impl Fn(&StepReport) + Send + Sync) -> Result<Report, PreloadError> {
        if is_internal_thread() {
            return Ok(Report::skipped(NESTED));
        }
        let Some(_guard) = ReentrancyGuard::enter(&DOES_INTERNAL_WORK) else { return Ok(Report::skipped(NESTED)) };
        critical::protect();
        let recorder = run::Recorder::new(&progress, run::may_start_threads());
        run::execute(self, &recorder);
        recorder.into_result()
    }

    /// Starts the preload in a background thread.
    ///
    /// An exit, a fork, and the end of this thread wait at most ten seconds for the current step. If a thread other
    /// than this one or the program's first thread exits the process during a step, the process can crash, because
    /// glibc then runs the destructors of half-loaded libraries first.
    ///
    /// No thread is started while sixteen other preloads are running, or if a preload itself calls this, for example
    /// through a log callback.
    pub fn start(mut self) -> PreloadHandle {
        if is_nested() {
            return PreloadHandle { preload: Arc::new(self), run: None };
        }
        self.options.read_environment();
        self.page_lists = Some(ListLocations::from_environment());
        logging::read_variables();
        listen_if_verbose();
        let preload = Arc::new(self);
        let run = Preload::start_thread(&preload);
        PreloadHandle { preload, run }
    }

    /// Returns `None` if no thread can be started.
    fn start_thread(preload: &Arc<Preload>) -> Option<Arc<BackgroundRun>> {
        critical::protect();
        let running = critical::BackgroundThread::new().filter(|_| dl::is_in_first_namespace())?;
        let run = Arc::new(BackgroundRun { process: std::process::id(), result: Mutex::new(None) });
        let (in_thread, preload) = (run.clone(), preload.clone());
        let started = spawn_detached(Box::new(move || {
            let _guard = (running, ReentrancyGuard::enter(&DOES_INTERNAL_WORK));
            let recorder = run::Recorder::in_background();
            run::execute(&preload, &recorder);
            let result = recorder.into_result();
            if let Some(mut slot) = lock(&in_thread.result) {
                *slot = Some(result);
            }
        }));
        started.ok().map(|()| run)
    }
}

/// State that a background thread shares with the handle.
#[derive(Debug)]
struct BackgroundRun {
    process: u32,
    result: Mutex<Option<Result<Report, PreloadError>>>,
}

impl BackgroundRun {
    fn has_ended(&self) -> bool {
        lock(&self.result).is_some_and(|result| result.is_some())
    }
}

/// A preload in a background thread. It continues after the handle is dropped.
#[derive(Debug)]
pub struct PreloadHandle {
    preload: Arc<Preload>,
    /// `None` if no thread was started.
    run: Option<Arc<BackgroundRun>>,
}

impl PreloadHandle {
    /// Waits until the preload has finished.
    ///
    /// If no background thread was started, this thread does the work. It also does the work if the background thread
    /// makes no progress for a second. That happens in a library's constructor, where this thread holds ld.so's lock.
    ///
    /// The call returns immediately, and the report contains one skipped step, in two cases: if a preload itself calls
    /// this, for example through a log callback, and in a child that was forked after the preload had started.
    ///
    /// # Errors
    /// See [`Preload::run`].
    pub fn join(self) -> Result<Report, PreloadError> {
        let Some(run) = &self.run else { return self.preload.run() };
        if run.process != std::process::id() {
            return Ok(Report::skipped("started by the parent"));
        }
        if is_nested() {
            return Ok(Report::skipped(NESTED));
        }
        let in_this_thread = (!critical::wait_until(&|| run.has_ended())).then(|| self.preload.run());
        let result = lock(&run.result).and_then(|mut result| result.take());
        result.or(in_this_thread).unwrap_or_else(|| Ok(Report::skipped("no report")))
    }

    /// Returns whether the preload has finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.run.as_ref().is_none_or(|run| run.has_ended())
    }
}

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

mod critical;
mod driver;
mod engines;
pub mod pages;
mod readahead;
mod report;
mod run;

use std::sync::{Arc, Mutex};

use cudnn_sys::signatures;
pub use driver::DriverError;
pub use report::{PreloadError, Report, Step, StepOutcome, StepReport};

use self::pages::Places;
use crate::builtin::error_strings::listen_if_verbose;
use crate::dl;
use crate::function::Function;
use crate::logging;
use crate::options::Options;
use crate::sub_library::SubLibrary;
use crate::sync::primitives::lock;
use crate::thread::reentrancy::ReentrancyGuard;
use crate::thread::spawn::{DOES_INTERNAL_WORK, is_internal_thread, spawn_detached};

/// Whether a preload has called this code: a log callback, a library's constructor, on Windows what hears of a
/// new thread. A preload that starts there could
/// start the next, without end.
pub fn is_nested() -> bool {
    DOES_INTERNAL_WORK.get() || is_internal_thread()
}

const NESTED: &str = "called by a preload";

/// The sub-libraries that have a version check, with its function. Each check needs a context; graph's creates one.
pub const VERSION_CHECKS: &[(SubLibrary, Function)] = &[
    (SubLibrary::Graph, Function::CudnnGraphVersionCheck),
    (SubLibrary::Ops, Function::CudnnOpsVersionCheck),
    (SubLibrary::Cnn, Function::CudnnCnnVersionCheck),
    (SubLibrary::Adv, Function::CudnnAdvVersionCheck),
];

/// The type of the functions of [`VERSION_CHECKS`].
pub type VersionCheck = signatures::cudnnGraphVersionCheck;

const _: fn(
    signatures::cudnnOpsVersionCheck,
    signatures::cudnnCnnVersionCheck,
    signatures::cudnnAdvVersionCheck,
) -> [VersionCheck; 3] = |ops, cnn, adv| [ops, cnn, adv];

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
    loads_nothing: bool,
    /// Where lists of pages are. Read from the environment when the preload starts.
    page_lists: Option<Places>,
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
            loads_nothing: false,
            page_lists: None,
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

    /// Loads nothing of cuDNN: only makes the kernel read the files ahead, and creates the contexts through the driver.
    /// Safe beside an exit by any thread, since no library registers destructors meanwhile but the driver's.
    pub fn loading_nothing(mut self) -> Self {
        self.loads_nothing = true;
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
    /// In a library's constructor, and in a namespace of `dlmopen`, all steps run in this thread, and the context is
    /// skipped: other threads would wait for ld.so's lock. In code that a preload calls (a log callback), this does
    /// nothing, and the report has one skipped step.
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
        if is_internal_thread() {
            return Ok(Report::skipped(NESTED));
        }
        let Some(_guard) = ReentrancyGuard::enter(&DOES_INTERNAL_WORK) else { return Ok(Report::skipped(NESTED)) };
        critical::protect();
        let recorder = run::Recorder::new(&progress, run::may_start_threads());
        run::execute(self, &recorder);
        recorder.into_result()
    }

    /// Preloads in a background thread.
    ///
    /// An exit or a fork waits for the step that is under way, for at most ten seconds, and so does the end of this
    /// thread. An exit by a thread that is neither this one nor the program's first can crash in the middle of a step,
    /// because glibc then runs the destructors of half-loaded libraries first.
    ///
    /// Starts nothing while sixteen others are running, or in code that a preload calls (a log callback).
    pub fn start(mut self) -> PreloadHandle {
        if is_nested() {
            return PreloadHandle { preload: Arc::new(self), run: None };
        }
        self.options.read_environment();
        self.page_lists = Some(Places::from_environment());
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

/// What a background thread and its handle share.
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

/// A preload in a background thread. It continues if the handle is dropped.
#[derive(Debug)]
pub struct PreloadHandle {
    preload: Arc<Preload>,
    /// `None` if no thread was started.
    run: Option<Arc<BackgroundRun>>,
}

impl PreloadHandle {
    /// Waits for the end.
    ///
    /// If the background thread makes no progress for a second, this thread does the work, too: the other may wait for
    /// ld.so's lock, which this thread has in a library's constructor. If no thread was started, this thread does the
    /// work. In code that a preload calls (a log callback), and in a process that was forked from the one that started
    /// the preload, this waits for nothing, and the report has one skipped step.
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

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.run.as_ref().is_none_or(|run| run.has_ended())
    }
}

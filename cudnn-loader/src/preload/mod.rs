//! Loading ahead of the first use: files, libraries, CUDA contexts and cuDNN's engines, side by side where cuDNN and the
//! dynamic linker allow it.

mod driver;
mod engines;
mod files;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cudnn_probe::{Host, LdSearchPath, Library, Version};

pub use driver::DriverError;

use crate::pinned::select;
use crate::{
    Function, Installation, LoadError, LoadErrorKind, Options, SubLibrary, cudnnStatus_t, last_error, linker, loading,
    run_paths,
};
use driver::Driver;

/// What to load ahead: by default every sub-library of the installation, and the context of the current device.
///
/// ```no_run
/// # fn main() -> Result<(), cudnn_loader::preload::PreloadError> {
/// let loading = cudnn_loader::Preload::new().engines(true).start();
/// // ... whatever the program has to do meanwhile ...
/// println!("{}", loading.wait()?);
/// # Ok(())
/// # }
/// ```
///
/// A callback of C++'s (`cudnnSetCallback`) must not throw an exception at what this has to tell it: part of the work is done
/// in threads of its own.
#[derive(Clone, Debug)]
#[must_use]
pub struct Preload {
    options: Options,
    libraries: Vec<SubLibrary>,
    devices: Devices,
    engines: bool,
    device_description: Option<String>,
}

/// Loads ahead: [`Preload::run`].
///
/// # Errors
/// The first step that failed; the others are done all the same.
pub fn preload(what: &Preload) -> Result<Report, PreloadError> {
    what.run()
}

/// Whose contexts to make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Devices {
    /// That of the calling thread's context; the first where it has none.
    Current,
    /// All, at once.
    All,
    /// These, by their numbers, at once. With none: no context, and no driver is needed.
    List(Vec<i32>),
}

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Finding the installation.
    Find,
    /// Having the kernel read this library's file.
    ReadAhead(Library),
    /// Having the kernel read cuBLASLt's file, which the engines open.
    ReadAheadCublas,
    /// Loading a sub-library.
    Load(SubLibrary),
    /// Loading and initialising the driver.
    Driver,
    /// Making the context of the device of this number, through `cudnnGraphVersionCheck`, as NVIDIA documents.
    Context(i32),
    /// A sub-library's own check of its version, which needs a context.
    Check(SubLibrary),
    /// cuDNN's registration of its engines.
    Engines,
}

/// What came of a step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StepOutcome {
    /// It was done.
    Done,
    /// It was left out, for this reason; nothing is worse for it.
    Skipped(String),
    /// A library could not be loaded.
    LoadFailed(LoadError),
    /// The driver failed.
    Driver(DriverError),
    /// cuDNN failed, with this status and last-error text.
    Status(cudnnStatus_t, String),
}

impl StepOutcome {
    /// Is it neither done nor left out?
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, StepOutcome::Done | StepOutcome::Skipped(_))
    }

    /// The status that stands for a failure: that of the load error or of cuDNN, 1001 for the driver's; 0 for none.
    #[must_use]
    pub fn status(&self) -> cudnnStatus_t {
        match self {
            StepOutcome::Done | StepOutcome::Skipped(_) => cudnnStatus_t(0),
            StepOutcome::LoadFailed(error) => error.status(),
            StepOutcome::Driver(_) => cudnnStatus_t(1001),
            StepOutcome::Status(status, _) => *status,
        }
    }
}

/// One step, with its time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepReport {
    /// Which.
    pub step: Step,
    /// When it began, counted from the beginning of all.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// What came of it.
    pub outcome: StepOutcome,
}

/// What a preload did, step by step, in the order in which they ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The steps.
    pub steps: Vec<StepReport>,
    /// How long all of it took.
    pub duration: Duration,
}

/// A preload that failed in a step. Everything that was loaded stays loaded, and what failed can be tried again, by a
/// call or by another preload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreloadError {
    /// The first step that failed.
    pub failed: StepReport,
    /// All steps, that one included.
    pub report: Report,
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

    /// From an installation that meets these options.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// These sub-libraries, and those that they need. One that the installation does not include is left out.
    pub fn libraries(mut self, libraries: &[SubLibrary]) -> Self {
        self.libraries = libraries.to_vec();
        self
    }

    /// The contexts of these devices.
    pub fn devices(mut self, devices: Devices) -> Self {
        self.devices = devices;
        self
    }

    /// Also has cuDNN register its engines, so that the first plan or workspace query need not: some 100 ms less later, and
    /// as much work now, beside the making of the context. Left out before cuDNN 9.8, which cannot without a context, and
    /// where a library that the engines want is missing, for want of which cuDNN would end the process.
    pub fn engines(mut self, engines: bool) -> Self {
        self.engines = engines;
        self
    }

    /// Registers the engines for the device of this description (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), in place of a
    /// general one.
    pub fn device_description(mut self, json: impl Into<String>) -> Self {
        self.device_description = Some(json.into());
        self
    }

    /// Does it, and waits. May be called from any thread, and again: what is loaded already costs nothing.
    ///
    /// # Errors
    /// The first step that failed; the others are done all the same.
    pub fn run(&self) -> Result<Report, PreloadError> {
        self.run_with_progress(|_| {})
    }

    /// As [`Preload::run`], telling of each step when it ends, in the thread that did it.
    ///
    /// # Errors
    /// As [`Preload::run`].
    pub fn run_with_progress(&self, progress: impl Fn(&StepReport) + Send + Sync) -> Result<Report, PreloadError> {
        let run = Recorder { start: Instant::now(), steps: Mutex::new(Vec::new()), progress: &progress };
        self.execute(&run);
        let report = Report {
            duration: run.start.elapsed(),
            steps: run.steps.into_inner().unwrap_or_else(PoisonError::into_inner),
        };
        match report.steps.iter().find(|step| step.outcome.is_failure()) {
            Some(failed) => Err(PreloadError { failed: failed.clone(), report }),
            None => Ok(report),
        }
    }

    /// Does it in a thread of its own.
    pub fn start(self) -> PreloadHandle {
        let preload = self.clone();
        let thread = std::thread::Builder::new().name("cudnn-preload".into());
        PreloadHandle(SignalsBlocked::start(|| thread.spawn(move || preload.run())).map_err(|_| Box::new(self)))
    }

    fn execute(&self, run: &Recorder<'_>) {
        loading::clear_failure(SubLibrary::Graph);
        let mut found = None;
        run.step(Step::Find, || match select(&self.options) {
            Ok(installation) => {
                found = Some(installation);
                StepOutcome::Done
            }
            Err(error) => StepOutcome::LoadFailed(error),
        });
        let Some(installation) = found else { return };
        let is_context_wanted = !matches!(&self.devices, Devices::List(devices) if devices.is_empty());
        // Asked here, in the thread whose device is meant.
        let current = driver::current();
        std::thread::scope(|scope| {
            let contexts = is_context_wanted
                .then(|| SignalsBlocked::start(|| scope.spawn(move || contexts(run, &self.devices, current))));
            // Graph before all others: everything waits for it, and a disk that reads much else at once is slow to give it.
            read_ahead(run, Step::ReadAhead(Library::Graph), &installation.path(Library::Graph));
            let has_graph = run.step(Step::Load(SubLibrary::Graph), || match self.options.load() {
                Ok(_) => StepOutcome::Done,
                Err(error) => StepOutcome::LoadFailed(error),
            });
            SignalsBlocked::start(|| scope.spawn(|| self.read_ahead(run, installation)));
            if has_graph && self.engines {
                let description = self.device_description.as_deref();
                SignalsBlocked::start(|| {
                    scope.spawn(move || run.step(Step::Engines, || register(installation, description)))
                });
            }
            let others = self.libraries.iter().copied().filter(|library| has_graph && *library != SubLibrary::Graph);
            let loaded: Vec<SubLibrary> =
                others.filter(|library| run.step(Step::Load(*library), || opened(*library))).collect();
            if let Some((driver, device)) = contexts.and_then(|contexts| contexts.join().ok()).flatten() {
                // Not in the caller's thread, whose context is its own affair.
                SignalsBlocked::start(|| scope.spawn(move || check_versions(run, &driver, device, &loaded)));
            }
        });
    }

    /// All but graph; first what the engines want, which is most of it and waited for longest.
    fn read_ahead(&self, run: &Recorder<'_>, installation: &Installation) {
        if self.engines {
            if let Some(cublas) = cublas(installation).and_then(|name| found(installation, &name)) {
                read_ahead(run, Step::ReadAheadCublas, &cublas);
            }
            for library in Library::OPENED_BY_GRAPH {
                read_ahead(run, Step::ReadAhead(*library), &installation.path(*library));
            }
        }
        for library in self.libraries.iter().filter(|library| **library != SubLibrary::Graph) {
            read_ahead(run, Step::ReadAhead(library.library()), &installation.path(library.library()));
        }
    }
}

fn read_ahead(run: &Recorder<'_>, step: Step, file: &Path) {
    if !file.exists() {
        return;
    }
    run.step(step, || match files::read_ahead(file) {
        Ok(_) => StepOutcome::Done,
        Err(error) => StepOutcome::Skipped(error.to_string()),
    });
}

/// A preload in a thread of its own; it goes on when this is dropped.
#[derive(Debug)]
pub struct PreloadHandle(Result<JoinHandle<Result<Report, PreloadError>>, Box<Preload>>);

impl PreloadHandle {
    /// Waits for its end.
    ///
    /// # Errors
    /// As [`Preload::run`].
    pub fn join(self) -> Result<Report, PreloadError> {
        match self.0 {
            Ok(thread) => thread.join().unwrap_or_else(|_| Preload::new().run()),
            // There was no thread to be had: it is done here.
            Err(preload) => preload.run(),
        }
    }

    /// Has it come to its end?
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().map_or(true, JoinHandle::is_finished)
    }
}

/// Has the threads that are started while it lives take no signals, which are for the program's own threads.
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    #[inline(never)]
    fn new() -> Self {
        // SAFETY: sets of bits, for which zero is a value; both are the calls' own to write.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
            SignalsBlocked { before }
        }
    }

    /// Starts something while no signals are taken.
    fn start<T>(start: impl FnOnce() -> T) -> T {
        let _quiet = SignalsBlocked::new();
        start()
    }
}

impl Drop for SignalsBlocked {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the mask that the thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// A preload that is under way.
struct Recorder<'a> {
    start: Instant,
    steps: Mutex<Vec<StepReport>>,
    progress: &'a (dyn Fn(&StepReport) + Send + Sync),
}

impl Recorder<'_> {
    /// Does a step and notes it. Says whether it was done.
    fn step(&self, step: Step, work: impl FnOnce() -> StepOutcome) -> bool {
        let began = self.start.elapsed();
        let outcome = work();
        let report = StepReport { step, start: began, duration: self.start.elapsed().saturating_sub(began), outcome };
        let is_done = matches!(report.outcome, StepOutcome::Done);
        (self.progress)(&report);
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        is_done
    }
}

/// Makes the contexts, all at once. Gives the driver and a device that has one.
fn contexts(run: &Recorder<'_>, devices: &Devices, current: i32) -> Option<(Driver, i32)> {
    let mut driver = None;
    run.step(Step::Driver, || match Driver::new() {
        Ok(found) => {
            driver = Some(found);
            StepOutcome::Done
        }
        Err(error) => StepOutcome::Driver(error),
    });
    let driver = driver?;
    let devices = match devices {
        Devices::Current => vec![current],
        Devices::List(devices) => devices.clone(),
        Devices::All => match driver.count() {
            Ok(count) => (0..count).collect(),
            Err(error) => {
                run.step(Step::Driver, || StepOutcome::Driver(error));
                return None;
            }
        },
    };
    let make = |device: i32| run.step(Step::Context(device), || context(&driver, device)).then_some(device);
    let made = std::thread::scope(|scope| {
        let make = &make;
        let (first, others) = devices.split_first()?;
        let threads: Vec<_> = others.iter().map(|device| scope.spawn(move || make(*device))).collect();
        // The first in this thread: to start one takes a lock of the dynamic linker's, which is busy meanwhile.
        let first = make(*first);
        threads.into_iter().fold(first, |made, thread| made.or(thread.join().ok().flatten()))
    });
    made.map(|device| (driver, device))
}

fn context(driver: &Driver, device: i32) -> StepOutcome {
    if let Err(error) = driver.make_context(device) {
        return StepOutcome::Driver(error);
    }
    checked(Function::CudnnGraphVersionCheck, crate::graph::cudnnGraphVersionCheck)
}

fn check_versions(run: &Recorder<'_>, driver: &Driver, device: i32, libraries: &[SubLibrary]) {
    if driver.make_context(device).is_err() {
        return;
    }
    for library in libraries {
        let (function, check): (Function, VersionCheck) = match library {
            SubLibrary::Ops => (Function::CudnnOpsVersionCheck, crate::ops::cudnnOpsVersionCheck),
            SubLibrary::Cnn => (Function::CudnnCnnVersionCheck, crate::cnn::cudnnCnnVersionCheck),
            SubLibrary::Adv => (Function::CudnnAdvVersionCheck, crate::adv::cudnnAdvVersionCheck),
            SubLibrary::Graph | SubLibrary::Ext => continue,
        };
        run.step(Step::Check(*library), || checked(function, check));
    }
}

type VersionCheck = unsafe extern "C" fn() -> cudnnStatus_t;

fn checked(function: Function, check: VersionCheck) -> StepOutcome {
    if let Err(error) = function.resolve() {
        return StepOutcome::LoadFailed(error);
    }
    // SAFETY: it takes nothing.
    outcome(unsafe { check() })
}

fn outcome(status: cudnnStatus_t) -> StepOutcome {
    if status.is_success() { StepOutcome::Done } else { StepOutcome::Status(status, last_error::take()) }
}

fn opened(library: SubLibrary) -> StepOutcome {
    match library.load() {
        Ok(_) => StepOutcome::Done,
        Err(error) if matches!(error.kind(), LoadErrorKind::LibraryMissing) => {
            StepOutcome::Skipped("this installation does not include it".into())
        }
        Err(error) => StepOutcome::LoadFailed(error),
    }
}

/// Registers the engines, where that can be done without a context and will not end the process.
fn register(installation: &Installation, device: Option<&str>) -> StepOutcome {
    const SINCE: Version = Version::new(9, 8, 0);
    if installation.version < SINCE {
        return StepOutcome::Skipped(format!(
            "this cuDNN is {}, and can do without a context from {SINCE} on",
            installation.version
        ));
    }
    // Without it cuDNN's engines end the process from 9.11 on, or soon after: they open it by name, and do not ask whether
    // it is there. 9.10.2 plans without it.
    let is_wanted = installation.version >= Version::new(9, 11, 0) && installation.has(Library::EnginesPrecompiled);
    let cublas = cublas(installation).filter(|name| is_wanted && !is_found(installation, name));
    if let Some(cublas) = cublas {
        return StepOutcome::Skipped(format!("{cublas} is not found, which the engines want"));
    }
    match engines::register(device) {
        Ok(()) => StepOutcome::Done,
        // A set whose engines cannot plan this convolution: there is nothing to be had ahead.
        Err(status) if status.category() == cudnnStatus_t(3000) => StepOutcome::Skipped(last_error::take()),
        // Newer engines cannot be loaded without the driver; then there is nothing to compute on either.
        Err(_) if !is_found(installation, "libcuda.so.1") => {
            StepOutcome::Skipped(format!("libcuda.so.1 is not found, which the engines want: {}", last_error::take()))
        }
        Err(status) => StepOutcome::Status(status, last_error::take()),
    }
}

/// The name by which the engines open cuBLASLt.
fn cublas(installation: &Installation) -> Option<String> {
    let cuda = loading::cuda_major().or(installation.cuda_major)?;
    Some(format!("libcublasLt.so.{cuda}"))
}

/// Is a library loaded, or would the dynamic linker find it for cuDNN's engines?
fn is_found(installation: &Installation, name: &str) -> bool {
    linker::list().contains(name) || found(installation, name).is_some()
}

/// The file that the dynamic linker would find for cuDNN's engines, whose run path is graph's.
fn found(installation: &Installation, name: &str) -> Option<PathBuf> {
    let places = LdSearchPath::new(&Host::current().secure_execution(linker::is_secure_execution()));
    let graph = installation.path(Library::Graph);
    let own = || run_paths::dirs_of(&graph).into_iter().map(|folder| folder.join(name)).find(|file| file.exists());
    places.before(name).or_else(own).or_else(|| places.after(name))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Find => f.write_str("find cuDNN"),
            Step::ReadAhead(library) => write!(f, "read ahead {library}"),
            Step::ReadAheadCublas => f.write_str("read ahead libcublasLt"),
            Step::Load(library) => write!(f, "load {library}"),
            Step::Driver => f.write_str("start the driver"),
            Step::Context(device) => write!(f, "context of device {device}"),
            Step::Check(library) => write!(f, "check {library}"),
            Step::Engines => f.write_str("register engines"),
        }
    }
}

impl fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepOutcome::Done => f.write_str("done"),
            StepOutcome::Skipped(why) => write!(f, "left out: {why}"),
            StepOutcome::LoadFailed(error) => write!(f, "failed: {error}"),
            StepOutcome::Driver(error) => write!(f, "failed: {error}"),
            StepOutcome::Status(status, text) => write!(f, "failed: {status:?}: {text}"),
        }
    }
}

/// A line for each step: when it began, what it took, what came of it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for StepReport { step, start: began, duration: took, outcome } in &self.steps {
            let (began, took) = (Milliseconds(*began), Milliseconds(*took));
            writeln!(f, "{began} ms +{took} ms  {:<44} {outcome}", step.to_string())?;
        }
        write!(f, "{} ms in all", Milliseconds(self.duration))
    }
}

/// A time with two decimals, right-aligned. Without floating point, whose formatting would be a good part of the drop-in
/// library.
struct Milliseconds(Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = self.0.as_micros() as u64 / 10;
        write!(f, "{:6}.{:02}", hundredths / 100, hundredths % 100)
    }
}

impl fmt::Display for PreloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.failed.step, self.failed.outcome)
    }
}

impl std::error::Error for PreloadError {}

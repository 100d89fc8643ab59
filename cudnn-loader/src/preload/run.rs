//! Runs and records the steps of a preload, in parallel where possible.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cudnn_os::descriptors::leave_shared_table;
use cudnn_os::memory;
use cudnn_probe::{Installation, Library, Version};
use cudnn_sys::types::cudnnStatus_t;

use super::critical::{CriticalSection, with_critical_openings};
use super::driver::{self, Driver};
use super::pages::{self, ListLocations};
use super::report::{PreloadError, Report, Step, StepOutcome, StepReport};
use super::{Devices, Preload, VERSION_CHECKS, VersionCheck, engines, readahead};
use crate::dispatch::{entry, load_library};
use crate::dl::objects::LoadedObjects;
use crate::dl::search_path::SearchPath;
use crate::dl::{self, run_paths};
use crate::error::{FailureStatus, LoadErrorKind};
use crate::error_strings::take_last_error;
use crate::function::Function;
use crate::logging;
use crate::names::{BUSY_LOADER, DRIVER, cublas_lt, loader};
use crate::resolve::{installation, libraries};
use crate::sync::primitives::{Backoff, lock};
use crate::thread::spawn::{Scope, ScopedThread, Work, scope, spawn_detached, spawn_scoped};

/// Records the steps of a running preload.
pub(super) struct Recorder<'a> {
    start: Instant,
    steps: Mutex<Vec<StepReport>>,
    progress: &'a (dyn Fn(&StepReport) + Send + Sync),
    is_parallel: bool,
    /// Whether the thread belongs to the preload.
    is_background: bool,
}

impl<'a> Recorder<'a> {
    /// Records the steps of a preload in the caller's thread, which may start other threads if `is_parallel`.
    pub(super) fn new(progress: &'a (dyn Fn(&StepReport) + Send + Sync), is_parallel: bool) -> Self {
        let steps = Mutex::default();
        Recorder { start: Instant::now(), steps, progress, is_parallel, is_background: false }
    }

    /// Records the steps of a preload in a background thread.
    pub(super) fn in_background() -> Self {
        Recorder { is_background: true, ..Recorder::new(&|_| {}, true) }
    }

    /// Starts a thread for the work.
    ///
    /// # Errors
    /// Returns the work if no thread can be started.
    fn spawn<'scope, 'env>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        work: Work<'scope>,
    ) -> Result<ScopedThread<'scope, ()>, Work<'scope>> {
        if self.is_parallel { spawn_scoped(scope, work) } else { Err(work) }
    }

    /// Starts a thread for the work, or does the work in this thread if no thread can be started.
    fn spawn_or_run<'scope>(&self, scope: &'scope Scope<'scope, '_>, work: Work<'scope>) {
        if let Err(work) = self.spawn(scope, work) {
            work();
        }
    }

    /// Runs and records a step that must not be interrupted by an exit or a fork. Returns whether it succeeded.
    fn critical_step(&self, step: Step, work: impl FnOnce() -> StepOutcome) -> bool {
        self.step(step, || match CriticalSection::enter() {
            Some(_section) => work(),
            None => StepOutcome::Skipped(dl::PROCESS_IS_ENDING.into()),
        })
    }

    /// Runs and records a step. Returns whether it succeeded.
    fn step(&self, step: Step, work: impl FnOnce() -> StepOutcome) -> bool {
        let start = self.start.elapsed();
        let outcome = work();
        self.record(step, start, outcome)
    }

    /// Records a step that has just finished. Separate from [`Recorder::step`], which is instantiated per closure.
    fn record(&self, step: Step, start: Duration, outcome: StepOutcome) -> bool {
        let report = StepReport { step, start, duration: self.start.elapsed().saturating_sub(start), outcome };
        let is_done = matches!(report.outcome, StepOutcome::Done);
        (self.progress)(&report);
        if let Some(mut steps) = lock(&self.steps) {
            steps.push(report);
        }
        is_done
    }

    pub(super) fn into_result(self) -> Result<Report, PreloadError> {
        let steps = self.steps.into_inner().unwrap_or_else(PoisonError::into_inner);
        let report = Report { duration: self.start.elapsed(), steps };
        match report.steps.iter().find(|step| step.outcome.is_failure()) {
            Some(failed) => Err(PreloadError { failed: failed.clone(), report }),
            None => Ok(report),
        }
    }
}

/// Returns whether other threads can run steps. In a `dlmopen` namespace they cannot. They also cannot while ld.so's
/// lock is taken: this thread may hold it, and must not wait for them.
pub(super) fn may_start_threads() -> bool {
    if !dl::is_in_first_namespace() {
        return false;
    }
    let has_answered = Arc::new(AtomicBool::new(false));
    let answer = has_answered.clone();
    let asked = spawn_detached(Box::new(move || {
        dl::wait_for_lock();
        answer.store(true, Ordering::Release);
    }));
    let mut backoff = Backoff::with_limit(Duration::from_millis(200));
    while asked.is_ok() && !has_answered.load(Ordering::Acquire) && backoff.wait() {}
    has_answered.load(Ordering::Acquire)
}

pub(super) fn execute(preload: &Preload, recorder: &Recorder<'_>) {
    if preload.loads_nothing {
        read_and_create_contexts(preload, recorder)
    } else {
        load_all(preload, recorder)
    }
    // Make the first call retry failed loads.
    Library::ALL.iter().copied().for_each(libraries::clear_failure);
}

/// Creates the contexts and reads the files ahead. The reading uses a separate descriptor table, because all threads
/// need the driver's descriptors.
fn read_and_create_contexts(preload: &Preload, recorder: &Recorder<'_>) {
    let current = driver::current();
    scope(|scope| {
        let create = || {
            create_contexts(recorder, preload, current);
        };
        if wants_context(preload) {
            let _ = recorder.spawn(scope, Box::new(create)).map_err(|_| skip_driver(recorder));
        }
        // Only after starting the other thread, which inherits the shared table. The log file is open in that table
        // too.
        let shares_table = recorder.is_background && !logging::writes_to_file() && !leave_shared_table();
        if shares_table {
            let reason = "cannot unshare the file descriptor table";
            recorder.step(Step::Select, || StepOutcome::Skipped(reason.into()));
            return;
        }
        if let Some(installation) = select(preload, recorder)
            && !read_pages(preload, recorder, scope, installation)
        {
            read_ahead(recorder, Step::ReadAhead(Library::Graph), &installation.path(Library::Graph));
            read_ahead_others(preload, recorder, installation);
        }
    });
}

fn select<'a>(preload: &Preload, recorder: &Recorder<'_>) -> Option<&'a Installation> {
    let mut selected = None;
    recorder.step(Step::Select, || {
        match entry(|| installation::select(Some(&preload.options), &LoadedObjects::snapshot())) {
            Ok(installation) => {
                selected = Some(installation);
                StepOutcome::Done
            }
            Err(error) => StepOutcome::LoadFailed(error),
        }
    });
    selected
}

fn wants_context(preload: &Preload) -> bool {
    !matches!(&preload.devices, Devices::List(devices) if devices.is_empty())
}

fn skip_driver(recorder: &Recorder<'_>) {
    let reason = if recorder.is_parallel { "cannot start a thread" } else { BUSY_LOADER };
    recorder.step(Step::Driver, || StepOutcome::Skipped(reason.into()));
}

fn load_all(preload: &Preload, recorder: &Recorder<'_>) {
    libraries::clear_failure(Library::Graph);
    let Some(installation) = select(preload, recorder) else { return };
    // The current device of the calling thread.
    let current = driver::current();
    let with_context = Mutex::new(None);
    scope(|scope| {
        let contexts = wants_context(preload).then(|| {
            let create = || {
                let created = create_contexts(recorder, preload, current);
                if let Some(mut with_context) = lock(&with_context) {
                    *with_context = created;
                }
            };
            // Never in the caller's thread, because that would change the caller's current context.
            recorder.spawn(scope, Box::new(create)).map_err(|_| skip_driver(recorder))
        });
        let has_pages = read_pages(preload, recorder, scope, installation);
        if !has_pages {
            // Graph comes first because all other steps wait for it, and a disk that reads many files at once delivers
            // it later.
            read_ahead(recorder, Step::ReadAhead(Library::Graph), &installation.path(Library::Graph));
        }
        let has_graph =
            recorder.step(Step::Load(Library::Graph), || match with_critical_openings(|| preload.options.load()) {
                Ok(_) => StepOutcome::Done,
                Err(error) => StepOutcome::LoadFailed(error),
            });
        if !has_pages {
            recorder.spawn_or_run(scope, Box::new(|| read_ahead_others(preload, recorder, installation)));
        }
        if has_graph && preload.engines {
            recorder.spawn_or_run(
                scope,
                Box::new(|| {
                    let description = preload.device_description.as_deref();
                    recorder.step(Step::Engines, || register_engines(installation, description));
                }),
            );
        }
        let others = preload.libraries.iter().copied().filter(|library| has_graph && *library != Library::Graph);
        let loaded: Vec<Library> =
            others.filter(|library| recorder.step(Step::Load(*library), || load(installation, *library))).collect();
        if let Some(Ok(contexts)) = contexts {
            let _ = contexts.join();
        }
        let with_context = lock(&with_context).and_then(|mut with_context| with_context.take());
        if let Some((driver, device)) = with_context {
            let check = Box::new(move || check_versions(recorder, &driver, device, &loaded));
            let _ = recorder.spawn(scope, check).map_err(drop);
        }
    });
}

/// The number of threads that request recorded pages. Measurements showed that with more threads, a disk delivers the
/// pages needed first too late.
const PAGE_THREADS: usize = 2;

/// Starts reading the recorded pages before they are needed. Returns whether a list exists, which makes other
/// read-ahead unnecessary.
fn read_pages<'scope>(
    preload: &Preload,
    recorder: &'scope Recorder<'_>,
    scope: &'scope Scope<'scope, '_>,
    installation: &Installation,
) -> bool {
    let places = preload.page_lists.clone().unwrap_or_else(ListLocations::from_environment);
    let list = match places.find(&installation.dir) {
        Ok(Some(list)) => Arc::new(list),
        Ok(None) => return false,
        Err(reason) => {
            recorder.step(Step::ReadPages, || StepOutcome::Skipped(reason));
            return false;
        }
    };
    let next = Arc::new(AtomicUsize::new(0));
    for _ in 0..PAGE_THREADS {
        let (list, next) = (list.clone(), next.clone());
        let read = move || {
            recorder.step(Step::ReadPages, || {
                while let Some(file) = list.files().get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = pages::request(file) {
                        return StepOutcome::Skipped(error.to_string());
                    }
                }
                StepOutcome::Done
            });
        };
        recorder.spawn_or_run(scope, Box::new(read));
    }
    true
}

/// Reads ahead all files except graph's, starting with the files that the engines need. These are the largest and delay
/// the preload most.
fn read_ahead_others(preload: &Preload, recorder: &Recorder<'_>, installation: &Installation) {
    if preload.engines || preload.loads_nothing {
        if let Some(cublas) = find_cublas(installation) {
            read_ahead(recorder, Step::ReadAheadCublas, &cublas);
        }
        for library in Library::OPENED_BY_GRAPH {
            read_ahead(recorder, Step::ReadAhead(*library), &installation.path(*library));
        }
    }
    for library in preload.libraries.iter().filter(|library| **library != Library::Graph) {
        read_ahead(recorder, Step::ReadAhead(*library), &installation.path(*library));
    }
}

fn read_ahead(recorder: &Recorder<'_>, step: Step, file: &Path) {
    if !file.exists() {
        return;
    }
    recorder.step(step, || match readahead::read_ahead(file) {
        Ok(_) => StepOutcome::Done,
        Err(error) => StepOutcome::Skipped(error.to_string()),
    });
}

/// Creates the contexts in parallel. Returns the driver and a device that has a context.
fn create_contexts(recorder: &Recorder<'_>, preload: &Preload, current: i32) -> Option<(Driver, i32)> {
    let mut driver = None;
    recorder.step(Step::Driver, || match Driver::new() {
        Ok(found) => {
            driver = Some(found);
            StepOutcome::Done
        }
        Err(error) => StepOutcome::Driver(error),
    });
    let driver = driver?;
    let devices = match &preload.devices {
        Devices::Current => vec![current],
        Devices::List(devices) => devices.clone(),
        Devices::All => match driver.count() {
            Ok(count) => (0..count).collect(),
            Err(error) => {
                recorder.step(Step::Driver, || StepOutcome::Driver(error));
                return None;
            }
        },
    };
    let created = Mutex::new(None);
    let create = |device: i32| {
        if recorder.critical_step(Step::Context(device), || create_context(&driver, device, preload.loads_nothing))
            && let Some(mut created) = lock(&created)
        {
            *created = Some(device);
        }
    };
    scope(|scope| {
        let create = &create;
        let Some((first, others)) = devices.split_first() else { return };
        for device in others {
            recorder.spawn_or_run(scope, Box::new(move || create(*device)));
        }
        // Create the first context in this thread, because starting a thread requires a lock of ld.so that is now busy.
        create(*first);
    });
    let created = created.into_inner().unwrap_or_else(PoisonError::into_inner);
    created.map(|device| (driver, device))
}

fn create_context(driver: &Driver, device: i32, loads_nothing: bool) -> StepOutcome {
    match driver.make_context(device) {
        Ok(()) if loads_nothing => StepOutcome::Done,
        Ok(()) => call_check(Function::CudnnGraphVersionCheck),
        Err(error) => StepOutcome::Driver(error),
    }
}

fn check_versions(recorder: &Recorder<'_>, driver: &Driver, device: i32, loaded: &[Library]) {
    if driver.make_context(device).is_err() {
        return;
    }
    for (library, function) in VERSION_CHECKS.iter().filter(|(library, _)| loaded.contains(library)) {
        recorder.critical_step(Step::Check(*library), || call_check(*function));
    }
}

/// Calls a version check.
fn call_check(function: Function) -> StepOutcome {
    // SAFETY: all functions in the table of checks have no parameters and return a status.
    let check = unsafe { function.get::<VersionCheck>() };
    match check {
        // SAFETY: the function has no parameters and no preconditions.
        Ok(check) => outcome(unsafe { check() }),
        Err(error) => StepOutcome::LoadFailed(error),
    }
}

fn outcome(status: cudnnStatus_t) -> StepOutcome {
    if status.is_success() { StepOutcome::Done } else { StepOutcome::Status(status, take_last_error()) }
}

fn load(installation: &Installation, library: Library) -> StepOutcome {
    let skipped = || StepOutcome::Skipped("this installation does not include it".into());
    // Loading it anyway would log an error.
    if !installation.has(library) {
        return skipped();
    }
    match with_critical_openings(|| load_library(library)) {
        Ok(_) => StepOutcome::Done,
        Err(error) if matches!(error.kind(), LoadErrorKind::LibraryMissing) => skipped(),
        Err(error) => StepOutcome::LoadFailed(error),
    }
}

/// The engines and cuBLASLt map two gigabytes, and a process that uses a GPU has already mapped several more.
const MIN_ADDRESS_SPACE: u64 = 16 << 30;

/// Registers the engines, unless the registration needs a context or would abort the process.
fn register_engines(installation: &Installation, device: Option<&str>) -> StepOutcome {
    const SINCE: Version = Version::new(9, 8, 0);
    if installation.version < SINCE {
        let version = installation.version;
        return StepOutcome::Skipped(format!("cuDNN {version} cannot register engines without a context"));
    }
    // Since 9.11, cuDNN's engines abort the process if cuBLASLt is missing, because they open it by name without
    // checking the result. 9.10.2 can plan without it.
    let needs_cublas = installation.version >= Version::new(9, 11, 0) && installation.has(Library::EnginesPrecompiled);
    let missing = cublas_name(installation).filter(|name| needs_cublas && !is_available(installation, name));
    if let Some(cublas) = missing {
        return StepOutcome::Skipped(format!("{} does not find {cublas}, which the engines need", loader!()));
    }
    // If an allocation fails, cuDNN throws a C++ exception through C functions and thereby terminates the process.
    if memory::address_space_limit().is_some_and(|limit| limit < MIN_ADDRESS_SPACE) {
        return StepOutcome::Skipped("the address space limit is below 16 GiB".into());
    }
    dl::wait_for_lock();
    let Some(_section) = CriticalSection::enter() else { return StepOutcome::Skipped(dl::PROCESS_IS_ENDING.into()) };
    match engines::register(device) {
        Ok(()) => StepOutcome::Done,
        // The engines do not support the convolution; registering them brings no benefit.
        Err(status) if status.category() == cudnnStatus_t(3000) => StepOutcome::Skipped(take_last_error()),
        // Newer engines require the driver at load time. Without a driver, cuDNN is unusable anyway.
        Err(status)
            if status == FailureStatus::SublibraryLoadingFailed.into() && !is_available(installation, DRIVER) =>
        {
            StepOutcome::Skipped(format!("{DRIVER} was not found: {}", take_last_error()))
        }
        Err(status) => StepOutcome::Status(status, take_last_error()),
    }
}

/// Returns the name that the engines use to open cuBLASLt.
fn cublas_name(installation: &Installation) -> Option<String> {
    libraries::cuda_major().or(installation.cuda_major).map(cublas_lt)
}

fn find_cublas(installation: &Installation) -> Option<PathBuf> {
    find_for_graph(installation, &cublas_name(installation)?)
}

/// Returns whether a library is loaded, or the system's loader would find it for cuDNN's engines.
fn is_available(installation: &Installation, name: &str) -> bool {
    LoadedObjects::snapshot().contains(name) || find_for_graph(installation, name).is_some()
}

/// Returns the file that the system's loader would find for cuDNN's engines, which have the same run path as graph.
fn find_for_graph(installation: &Installation, name: &str) -> Option<PathBuf> {
    let host = dl::host();
    let run_path = run_paths::dirs_of(&host, &installation.path(Library::Graph));
    SearchPath::new(&host).resolve(name, &run_path)
}

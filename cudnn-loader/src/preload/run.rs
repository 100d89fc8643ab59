//! Runs the steps of a preload, in parallel where possible.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cudnn_os::descriptors::leave_shared_table;
use cudnn_probe::{Installation, Library};

use super::critical::CriticalSection;
use super::driver::Driver;
use super::engines;
use super::files::Files;
use super::pages::PageList;
use super::parts::{Devices, Preload};
use super::report::{PreloadError, PreloadOutcome, PreloadReport, PreloadStep, StepReport};
use crate::dispatch::{entry, load_library};
use crate::dl::objects::LoadedObjects;
use crate::error::LoadErrorKind;
use crate::logging;
use crate::resolve::{installation, libraries};
use crate::sync::primitives::lock;
use crate::thread::spawn::{Scope, Work, scope, spawn_scoped};

/// The number of threads that request recorded pages. Measurements showed that with more threads, a disk delivers the
/// pages needed first too late.
const PAGE_THREADS: usize = 2;

/// Runs the steps in this thread, which belongs to the preload, and in other threads.
pub(super) fn run(preload: &Preload) -> Result<PreloadReport, PreloadError> {
    let run = RunningPreload { preload, start: Instant::now(), steps: Mutex::default() };
    scope(|scope| run.steps(scope));
    // Make the first call retry failed loads.
    Library::WITH_API.iter().copied().for_each(libraries::clear_failure);
    let steps = run.steps.into_inner().unwrap_or_else(PoisonError::into_inner);
    let report = PreloadReport { duration: run.start.elapsed(), steps };
    match report.steps.iter().find(|step| step.outcome.is_failure()) {
        Some(failed) => Err(PreloadError { failed: Box::new(failed.clone()), report }),
        None => Ok(report),
    }
}

/// A running preload.
struct RunningPreload<'a> {
    preload: &'a Preload,
    start: Instant,
    steps: Mutex<Vec<StepReport>>,
}

impl RunningPreload<'_> {
    /// Runs all steps. Contexts, engines and files have threads of their own; libraries are loaded in this one.
    fn steps<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let preload = self.preload;
        let loads = preload.loads_cudnn();
        if preload.devices != Devices::List(Vec::new()) {
            spawn_or_run(scope, Box::new(|| self.create_contexts(scope)));
        }
        // The program may close all descriptors while this thread reads files. Not before the thread above has inherited
        // the shared table, to which the driver's descriptors belong. The log file is open in that table too.
        let is_private = !loads && !logging::is_enabled_by_environment();
        let installation = self.step(PreloadStep::Select, || {
            if is_private && !leave_shared_table() {
                return Err(PreloadOutcome::Skipped("cannot unshare the file descriptor table".into()));
            }
            libraries::clear_failure(Library::Graph);
            let selection = entry(|| installation::select(Some(&preload.options), &LoadedObjects::snapshot()))?;
            Ok(&selection.installation)
        });
        let Some(installation) = installation else { return };
        let list = self.read_page_list(installation);
        let is_listed = list.is_some();
        let files = Arc::new(list.map_or_else(|| Files::of(preload, installation), Files::listed));
        let read_all = || {
            let files = files.clone();
            spawn_or_run(scope, Box::new(move || while self.read_next(&files) {}));
        };
        if is_listed {
            (0..PAGE_THREADS).for_each(|_| read_all());
        } else {
            // Graph comes first because all other steps wait for it, and a disk that reads many files at once delivers
            // it later.
            self.read_next(&files);
        }
        let has_graph = loads && {
            let load_graph = || Ok(preload.options.load().map(drop)?);
            self.critical_step(PreloadStep::Load(Library::Graph), load_graph).is_some()
        };
        if !is_listed {
            read_all();
        }
        if has_graph && preload.engines {
            let register = || {
                self.critical_step(PreloadStep::Engines, || engines::register(installation));
            };
            spawn_or_run(scope, Box::new(register));
        }
        for library in preload.libraries.iter().filter(|library| has_graph && **library != Library::Graph) {
            self.critical_step(PreloadStep::Load(*library), || load(installation, *library));
        }
    }

    /// Reads the list of pages, if there is one.
    fn read_page_list(&self, installation: &Installation) -> Option<PageList> {
        let file = self.preload.page_list.as_ref()?;
        let skipped = |error: io::Error| PreloadOutcome::Skipped(error.to_string());
        self.step(PreloadStep::Read(file.clone()), || PageList::read(file, &installation.dir).map_err(skipped))
    }

    /// Reads the next file ahead. Returns `false` after the last one.
    fn read_next(&self, files: &Files<'_>) -> bool {
        let Some(file) = files.take_next() else { return false };
        self.step(PreloadStep::Read(file.path.clone()), || file.read());
        true
    }

    /// Starts the driver and creates the contexts in parallel.
    fn create_contexts<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let started = self.critical_step(PreloadStep::Driver, || {
            let driver = Driver::start()?;
            let devices = match &self.preload.devices {
                Devices::Current => vec![0],
                Devices::List(devices) => devices.clone(),
                Devices::All => (0..driver.count()?).collect(),
            };
            Ok((driver, devices))
        });
        let Some((driver, devices)) = started else { return };
        let create = move |device| {
            self.critical_step(PreloadStep::Context(device), || driver.create_context(device));
        };
        let Some((first, others)) = devices.split_first() else { return };
        for device in others.iter().copied() {
            spawn_or_run(scope, Box::new(move || create(device)));
        }
        // Create the first context in this thread, because starting a thread requires a lock of ld.so that is now busy.
        create(*first);
    }

    /// Runs and records a step that must not be interrupted by an exit or a fork. Returns the value if it succeeds.
    fn critical_step<T>(&self, step: PreloadStep, work: impl FnOnce() -> Result<T, PreloadOutcome>) -> Option<T> {
        self.step(step, || {
            let ending = || PreloadOutcome::Skipped("the process is ending".into());
            let _section = CriticalSection::enter().ok_or_else(ending)?;
            work()
        })
    }

    /// Runs and records a step. Returns the value if it succeeds.
    fn step<T>(&self, step: PreloadStep, work: impl FnOnce() -> Result<T, PreloadOutcome>) -> Option<T> {
        let start = self.start.elapsed();
        let (value, outcome) = match work() {
            Ok(value) => (Some(value), PreloadOutcome::Done),
            Err(outcome) => (None, outcome),
        };
        let report = StepReport { step, start, duration: self.start.elapsed().saturating_sub(start), outcome };
        (self.preload.progress)(&report);
        if let Some(mut steps) = lock(&self.steps) {
            steps.push(report);
        }
        value
    }
}

fn load(installation: &Installation, library: Library) -> Result<(), PreloadOutcome> {
    // Loading a missing library would log an error.
    let loaded = if installation.has(library) { Some(load_library(library)) } else { None };
    match loaded {
        Some(Err(error)) if !matches!(error.kind(), LoadErrorKind::LibraryMissing) => Err(error.into()),
        Some(Ok(_)) => Ok(()),
        _ => Err(PreloadOutcome::Skipped("this installation does not include it".into())),
    }
}

/// Starts a thread for the work, or does the work in this thread if no thread can be started.
fn spawn_or_run<'scope>(scope: &'scope Scope<'scope, '_>, work: Work<'scope>) {
    if let Err(work) = spawn_scoped(scope, work) {
        work();
    }
}

//! Selects what a preload loads.

use std::path::PathBuf;

use cudnn_probe::Library;

use super::report::StepReport;
use crate::options::Options;

/// Selects what to load ahead of time. By default, this is every sub-library of the installation and the context of the
/// current device.
///
/// While a preload runs, a C++ program's log callback (`cudnnSetCallback`) must not throw, because internal threads may
/// call it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Preload {
    pub(super) options: Options,
    pub(super) libraries: Vec<Library>,
    pub(super) devices: Devices,
    pub(super) engines: bool,
    pub(super) progress: fn(&StepReport),
    /// The file of a page list, read from the environment when the preload starts.
    pub(super) page_list: Option<PathBuf>,
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
            progress: |_| {},
            page_list: None,
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
    ///
    /// With an empty list and without engines, a preload does not load cuDNN, and only makes the kernel read all files
    /// ahead. Any thread may exit the process meanwhile, because only the driver registers destructors.
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

    /// Calls this function after every step, in the thread that executed it.
    pub fn progress(mut self, progress: fn(&StepReport)) -> Self {
        self.progress = progress;
        self
    }

    /// Returns whether the preload loads cuDNN, rather than only reading its files.
    pub(super) fn loads_cudnn(&self) -> bool {
        self.engines || !self.libraries.is_empty()
    }
}

//! Tests the driver's library separately from cuDNN, by opening it in a child process.

use std::ffi::OsStr;
use std::process::ExitCode;

use cudnn_backend::gpu::Gpu;
use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::subprocess::{self, Ended, Timeouts};
use cudnn_os::child::end_with_parent;
use cudnn_rules::system::DRIVER_LIBRARY;

pub(crate) const COMMAND: &str = "internal-driver";

/// Returns a fault of the driver that explains why a process with cuDNN failed.
pub(crate) fn fault(ended: &Ended, timeouts: &Timeouts) -> Option<String> {
    let step = ended.step.as_ref()?;
    if step.is_of_driver() {
        return Some(format!("{DRIVER_LIBRARY}, the driver's library, is at fault, not cuDNN"));
    }
    let alone = subprocess::run(&[OsStr::new(COMMAND)], timeouts).ok()?;
    let failure = alone.end.failure()?;
    Some(format!("a process that only opened {DRIVER_LIBRARY}, the driver's library, {failure}"))
}

/// Runs in the child process. Opens the driver's library without initializing it.
pub(crate) fn run_child() -> ExitCode {
    end_with_parent();
    open();
    ExitCode::SUCCESS
}

/// Returns whether the driver's library can be loaded.
pub(crate) fn open() -> bool {
    begin(Work::OpenDriver, format!("opened {DRIVER_LIBRARY}"));
    Gpu::has_driver()
}

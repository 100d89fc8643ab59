//! Tests the driver's library separately from cuDNN, by opening it in a child process.

use std::ffi::OsStr;
use std::process::ExitCode;

use cudnn_backend::gpu::Gpu;
use cudnn_os::child::end_with_parent;

use crate::child_report::{Work, begin};
use crate::subprocess::{self, Ended, Timeouts};
use crate::system::choose;

/// The hidden subcommand for the child process.
pub(crate) const COMMAND: &str = "internal-driver";

/// The name of the driver's library.
pub(crate) const LIBRARY: &str = crate::system::DRIVER;

/// The help for a driver that crashes or hangs.
pub(crate) const HELP: &str = choose(
    "check that `nvidia-smi` works; if it fails or hangs, reboot, or reinstall the driver. If LD_LIBRARY_PATH leads to \
     another libcuda.so.1, remove that directory from it",
    "check that `nvidia-smi` works; if it fails or hangs, restart Windows, or reinstall NVIDIA's driver",
);

/// The help for a damaged driver library.
pub(crate) const DAMAGED_HELP: &str = choose(
    "cuDNN needs no change. In a container, start it with GPU access, which puts the host's library in place of that file: \
     `docker run --gpus all ...`. Elsewhere, or if the file stays: remove it, and reinstall NVIDIA's driver",
    "cuDNN needs no change: reinstall NVIDIA's driver, and remove copies of nvcuda.dll that are not in Windows' own directory",
);

/// Returns the text if it is a driver version such as `580.65.06`, which can be compared.
pub(crate) fn version(text: &str) -> Option<&str> {
    const MAX_DIGITS: usize = 5;
    let is_number =
        |part: &str| (1..=MAX_DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.split('.').count();
    ((2..=4).contains(&count) && text.split('.').all(is_number)).then_some(text)
}

/// Returns a driver fault if it explains why a process ended after loading the driver along with other libraries.
pub(crate) fn fault(ended: &Ended, timeouts: &Timeouts) -> Option<String> {
    let step = ended.step.as_ref()?;
    if step.is_of_driver() {
        return Some(format!("{LIBRARY}, the driver's library, is at fault, not cuDNN"));
    }
    let alone = subprocess::run(&[OsStr::new(COMMAND)], timeouts).ok()?;
    let failure = alone.end.failure()?;
    Some(format!("a process that only opened {LIBRARY}, the driver's library, {failure}"))
}

/// Runs in the child process: opens the driver's library without initializing the driver.
pub(crate) fn run_child() -> ExitCode {
    end_with_parent();
    open();
    ExitCode::SUCCESS
}

/// Opens the driver's library as a step of this process. Returns whether it could be loaded.
pub(crate) fn open() -> bool {
    begin(Work::OpenDriver, format!("opened {LIBRARY}"));
    Gpu::has_driver()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_is_one() {
        for text in ["580.65.06", "470.57", "535.104.5.1"] {
            assert_eq!(version(text), Some(text));
        }
        for text in
            ["", "580", "580.", ".580", "580.65.06\u{1b}[31m", "r580.65", "580.65-beta", "1.2.3.4.5", "999999.1"]
        {
            assert_eq!(version(text), None, "{text}");
        }
    }
}

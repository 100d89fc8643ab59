//! Queries the driver for the GPUs of this machine. It runs in a child process, because drivers may crash or hang.

use std::ffi::OsStr;
use std::process::ExitCode;

use cudnn_backend::gpu::Gpu;
use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::platform::CAN_LOAD;
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_os::child::end_with_parent;
use serde_json::json;

/// The hidden subcommand of the child.
pub(crate) const COMMAND: &str = "internal-gpus";

const MESSAGE: &str = "compute_capabilities";

/// Returns the compute capabilities of the GPUs in tenths. Without a working driver there are none.
pub(crate) fn compute_capabilities(timeouts: &Timeouts) -> Vec<u32> {
    if !CAN_LOAD {
        return Vec::new();
    }
    let Ok(ended) = subprocess::run(&[OsStr::new(COMMAND)], timeouts) else { return Vec::new() };
    let answer = ended.messages.iter().find_map(|message| message.get(MESSAGE));
    answer.and_then(|answer| serde_json::from_value(answer.clone()).ok()).unwrap_or_default()
}

/// Runs the child process.
pub(crate) fn run_child() -> ExitCode {
    end_with_parent();
    begin(Work::StartDriver, "started the driver");
    send(&json!({ MESSAGE: Gpu::compute_capabilities().unwrap_or_default() }));
    ExitCode::SUCCESS
}

//! Queries NVML in a child process, because any library may be called NVML. NVML works without a CUDA context.

use std::ffi::OsStr;
use std::process::ExitCode;

use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::platform::CAN_LOAD;
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_os::child::end_with_parent;
use cudnn_probe::Host;
use cudnn_rules::check::machine::{Machine, QueryError};
use cudnn_rules::platform::system_library;
use cudnn_rules::system::NVML;
use serde_json::{Value, json};

use super::nvml::Nvml;

pub(crate) const COMMAND: &str = "internal-machine";

const ANSWER: &str = "nvml";

const MAX_GPUS: u32 = 1024;

pub(crate) fn detect(host: &Host, timeouts: &Timeouts) -> Machine {
    Machine::detect(host, || query_nvml(timeouts))
}

/// Returns the child's answer, or why it is missing.
fn query_nvml(timeouts: &Timeouts) -> Result<Value, QueryError> {
    if !CAN_LOAD {
        return Ok(Value::Null);
    }
    let ended = subprocess::run(&[OsStr::new(COMMAND)], timeouts).map_err(|error| {
        let (error, help) = subprocess::cannot_start(&error);
        QueryError::NotStarted(error, help)
    })?;
    match ended.end.failure() {
        // The child always sends an answer.
        None => ended.messages.iter().find_map(|message| message.get(ANSWER).cloned()).ok_or_else(|| {
            QueryError::Failed(
                "querying NVML failed: the library terminated the child process with status 0".to_owned(),
            )
        }),
        Some(failure) => {
            let during = ended.during();
            Err(QueryError::Failed(format!("querying NVML failed: the child process {failure}{during}")))
        }
    }
}

pub(crate) fn run_child() -> ExitCode {
    end_with_parent();
    begin(Work::QueryNvml, format!("opened {NVML} and queried it"));
    let nvml = Nvml::open(system_library(NVML).as_os_str());
    let gpu = |(name, (major, minor)): (String, (i32, i32))| json!({ "name": name, "compute_capability": major * 10 + minor });
    let gpus = |nvml: &Nvml| {
        let count = nvml.device_count().unwrap_or(0).min(MAX_GPUS);
        (0..count).filter_map(|index| nvml.device(index)).map(gpu).collect::<Vec<Value>>()
    };
    let driver = nvml.as_ref().and_then(Nvml::driver_version);
    send(&json!({ ANSWER: {
        "driver": driver.map(|version| version.unwrap_or_else(|_| "a text that is not UTF-8".to_owned())),
        "gpus": nvml.as_ref().map(gpus).unwrap_or_default(),
    }}));
    ExitCode::SUCCESS
}

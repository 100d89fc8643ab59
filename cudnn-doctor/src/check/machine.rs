//! The driver and the GPUs: by NVML, which makes no context, in a process of its own, since what lies under the driver's
//! names may be anything; and the driver's library by the dynamic linker's rules, without opening it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cudnn_probe::{Host, Resolution, Simulation};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde_json::{Value, json};

use crate::child;
use crate::output::document;

/// The word by which the doctor calls itself.
pub(crate) const COMMAND: &str = "internal-machine";

const TIMEOUT: Duration = Duration::from_secs(20);

/// What is known of the machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The driver's version; none where NVML does not answer.
    pub(crate) driver: Option<String>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) library: DriverLibrary,
    /// Asking NVML ended badly: how.
    pub(crate) nvml_error: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    /// In tenths: 90 is compute capability 9.0.
    pub(crate) compute_capability: u32,
}

/// `libcuda.so.1`, as a program would get it.
#[derive(Debug)]
pub(crate) enum DriverLibrary {
    Found,
    Missing,
    /// This file, and why.
    Unusable(PathBuf, String),
}

impl Machine {
    /// Looks, and asks NVML in another process; what it does not tell is left out.
    pub(crate) fn detect(environment: &Host) -> Machine {
        let library = driver_library(environment);
        let unknown = |trouble| Machine { driver: None, gpus: Vec::new(), library, nvml_error: trouble };
        let ended = match child::run(&[COMMAND], &[], TIMEOUT) {
            Ok(ended) => ended,
            Err(error) => return unknown(Some(format!("the doctor cannot start itself once more: {error}"))),
        };
        match ended.status {
            Some(status) if status.success() => {}
            Some(status) => return unknown(Some(format!("asking NVML ended in {status}"))),
            None => return unknown(Some(format!("NVML did not answer in {} s", TIMEOUT.as_secs()))),
        }
        let told: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        let gpu = |gpu: &Value| {
            let processor = u32::try_from(gpu.get("processor")?.as_u64()?).ok()?;
            Some(Gpu { name: gpu.get("name")?.as_str()?.to_owned(), compute_capability: processor })
        };
        let gpus = told.get("gpus").and_then(Value::as_array);
        Machine {
            driver: told.get("driver").and_then(Value::as_str).map(str::to_owned),
            gpus: gpus.map(|gpus| gpus.iter().filter_map(gpu).collect()).unwrap_or_default(),
            ..unknown(None)
        }
    }

    pub(crate) fn value(&self) -> Value {
        let gpu = |gpu: &Gpu| json!({ "name": gpu.name, "compute_capability": gpu.capability() });
        json!({ "driver": self.driver, "gpus": self.gpus.iter().map(gpu).collect::<Vec<_>>() })
    }
}

/// What the other process does: asks NVML, and prints what it tells.
pub(crate) fn run() -> ExitCode {
    let nvml = Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().ok();
    let gpu = |nvml: &Nvml, index| -> Result<Value, NvmlError> {
        let device = nvml.device_by_index(index)?;
        let capability = device.cuda_compute_capability()?;
        Ok(json!({ "name": device.name()?, "processor": capability.major * 10 + capability.minor }))
    };
    let gpus = |nvml: &Nvml| {
        (0..nvml.device_count().unwrap_or(0)).filter_map(|index| gpu(nvml, index).ok()).collect::<Vec<Value>>()
    };
    document(&json!({
        "driver": nvml.as_ref().and_then(|nvml| nvml.sys_driver_version().ok()),
        "gpus": nvml.as_ref().map(gpus).unwrap_or_default(),
    }));
    ExitCode::SUCCESS
}

fn driver_library(environment: &Host) -> DriverLibrary {
    let program = std::env::current_exe().unwrap_or_default();
    let Ok(mut prediction) = Simulation::new(&program, environment) else { return DriverLibrary::Missing };
    let before = prediction.steps().len();
    prediction.open("libcuda.so.1", 0);
    match prediction.steps().get(before).map(|step| &step.outcome) {
        Some(Resolution::Found { .. }) => DriverLibrary::Found,
        Some(Resolution::Unusable { path, error: refusal, .. }) => {
            DriverLibrary::Unusable(path.clone(), refusal.to_string())
        }
        _ => DriverLibrary::Missing,
    }
}

impl Gpu {
    pub(crate) fn capability(&self) -> String {
        format!("{}.{}", self.compute_capability / 10, self.compute_capability % 10)
    }
}

/// Is the one version, of numbers and dots, older than the other?
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    let numbers = |text: &str| text.split('.').map(|part| part.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>();
    numbers(version) < numbers(than)
}

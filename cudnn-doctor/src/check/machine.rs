//! The driver and the GPUs, by NVML, which makes no context.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde_json::{Value, json};

/// What NVML tells.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// The driver's version; none where there is no NVML.
    pub(crate) driver: Option<String>,
    pub(crate) gpus: Vec<Gpu>,
}

#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    /// In tenths: 90 is compute capability 9.0.
    pub(crate) processor: u32,
}

impl Machine {
    /// Asks NVML; what it does not tell is left out.
    pub(crate) fn look() -> Machine {
        let Ok(nvml) = Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init() else { return Machine::default() };
        let gpu = |index| -> Result<Gpu, NvmlError> {
            let device = nvml.device_by_index(index)?;
            let capability = device.cuda_compute_capability()?;
            let number = |value: i32| u32::try_from(value).unwrap_or(0);
            Ok(Gpu { name: device.name()?, processor: number(capability.major) * 10 + number(capability.minor) })
        };
        let count = nvml.device_count().unwrap_or(0);
        Machine {
            driver: nvml.sys_driver_version().ok(),
            gpus: (0..count).filter_map(|index| gpu(index).ok()).collect(),
        }
    }

    pub(crate) fn value(&self) -> Value {
        let gpu = |gpu: &Gpu| json!({ "name": gpu.name, "compute_capability": gpu.capability() });
        json!({ "driver": self.driver, "gpus": self.gpus.iter().map(gpu).collect::<Vec<_>>() })
    }
}

impl Gpu {
    pub(crate) fn capability(&self) -> String {
        format!("{}.{}", self.processor / 10, self.processor % 10)
    }
}

/// Is the one version, of numbers and dots, older than the other?
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    let numbers = |text: &str| text.split('.').map(|part| part.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>();
    numbers(version) < numbers(than)
}

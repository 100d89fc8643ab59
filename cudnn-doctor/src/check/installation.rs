//! What is wrong with the installation itself, and between it and the machine.

use std::path::Path;

use cudnn_probe::{Flavour, Refusal, Report, Version, support};

use super::cure;
use super::finding::{
    BROKEN, Finding, INCOMPLETE, KNOWN_FAULT, MIXED_CUDA, MIXED_VERSIONS, NO_DRIVER, OLD_DRIVER, OLD_GPU,
};
use super::machine::{DriverLibrary, Machine, is_older};
use crate::output::Shown;
use crate::shell::before_others;

pub(super) fn findings(report: &Report, machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    let again = cure::reinstall(report);
    for part in &report.libraries {
        if let Err(refusal) = &part.state {
            let cure = refusal.cure().unwrap_or_else(|| again.clone());
            found.push(Finding::new(BROKEN, format!("{} {refusal}", part.path.shown())).cured_by(cure));
        }
    }
    for (part, refusal) in report.conflicts() {
        let kind = if matches!(refusal, Refusal::MixedCuda { .. }) { MIXED_CUDA } else { MIXED_VERSIONS };
        let finding = Finding::new(kind, format!("{} {refusal}", part.path.shown()));
        let finding = report
            .witnesses
            .iter()
            .fold(finding, |finding, witness| finding.because(format!("{}: {}", witness.says, witness.source)));
        found.push(finding.cured_by(cure::anew(report)));
    }
    if report.flavour == Flavour::Partial && !report.missing.is_empty() {
        let names: Vec<&str> = report.missing.iter().map(|library| library.file_name()).collect();
        let there = report.libraries.len();
        found.push(
            Finding::new(INCOMPLETE, format!("{} of {} libraries are missing", names.len(), names.len() + there))
                .because(format!("missing in {}: {}", report.folder.shown(), names.join(", ")))
                .cured_by(again.clone()),
        );
    }
    if let Some(version) = report.version {
        for fault in support::faults_of(version) {
            found.push(
                Finding::new(KNOWN_FAULT, format!("cuDNN {version}: {}", fault.what))
                    .because(format!("known of releases from {} up to, and not with, {}", fault.from, fault.until))
                    .cured_by(format!("install cuDNN {} or newer", fault.until)),
            );
        }
        let oldest = support::oldest_processor(version);
        for gpu in machine.gpus.iter().filter(|gpu| gpu.processor < oldest) {
            let what = format!("{} has compute capability {}", gpu.name, gpu.capability());
            let finding = Finding::new(OLD_GPU, what).because(format!(
                "cuDNN {version} has kernels from {}.{} on",
                oldest / 10,
                oldest % 10
            ));
            let older = support::oldest_processor(Version::new(9, 10, 2));
            found.push(match gpu.processor < older {
                true => finding.cured_by("none: no cuDNN 9 has kernels for it; cuDNN 8 may, with an older CUDA"),
                false => finding
                    .because(format!("9.10.2 is the newest release for compute capability {}", gpu.capability()))
                    .cured_by(format!(
                        "pip install nvidia-cudnn-cu{}==9.10.2.21",
                        report.cuda_major.unwrap_or(12).min(12)
                    )),
            });
        }
    }
    let needed = support::DRIVERS.iter().find(|(major, _)| Some(*major) == report.cuda_major);
    if let (Some((major, needed)), Some(driver)) = (needed, &machine.driver)
        && is_older(driver, needed)
    {
        found.push(
            Finding::new(OLD_DRIVER, format!("driver {driver} is too old for CUDA {major}"))
                .because(format!("this cuDNN is built for CUDA {major}, which needs a driver from {needed} on"))
                .cured_by(format!("install driver {needed} or newer, or cuDNN for an older CUDA")),
        );
    }
    found
}

/// Whether there is a driver at all.
pub(super) fn of_driver(machine: &Machine) -> Option<Finding> {
    let finding = match &machine.library {
        DriverLibrary::Found => {
            return machine.trouble.as_ref().map(|trouble| {
                Finding::new(NO_DRIVER, format!("the driver does not answer: {trouble}"))
                    .cured_by("See whether nvidia-smi works; if it does not, install the driver again, or start the machine again.")
            });
        }
        DriverLibrary::Unusable(path, refusal) => {
            let what = format!("libcuda.so.1, the driver's library, is {} and {refusal}", path.shown());
            return Some(Finding::new(NO_DRIVER, what).cured_by(
                "remove that file and install NVIDIA's driver, or start the container with the GPU: docker run --gpus all",
            ));
        }
        DriverLibrary::Missing => {
            Finding::new(NO_DRIVER, "libcuda.so.1, the driver's library, is not found: no GPU can be used")
        }
    };
    let finding = match (&machine.driver, &machine.trouble) {
        (Some(driver), _) => finding.because(format!("yet NVML tells of driver {driver}")),
        (None, Some(trouble)) => finding.because(trouble.clone()),
        (None, None) => finding.because("NVML (libnvidia-ml.so.1) does not answer either"),
    };
    let wsl = Path::new("/usr/lib/wsl/lib");
    Some(match wsl.join("libcuda.so.1").exists() {
        true => finding.because(format!("it is in {}", wsl.shown())).cured_by(before_others(wsl)),
        false => {
            finding.cured_by("install NVIDIA's driver, or start the container with the GPU: docker run --gpus all")
        }
    })
}

//! What is wrong with the installation itself, and between it and the machine.

use std::path::Path;

use cudnn_probe::{InstallationReport, ProbeError, Variant, Version, release_facts};

use super::cure;
use super::finding::{
    BROKEN, Finding, INCOMPLETE, KNOWN_FAULT, MIXED_CUDA, MIXED_VERSIONS, NO_DRIVER, OLD_DRIVER, OLD_GPU,
};
use super::machine::{DriverLibrary, Machine, is_older};
use crate::output::Printable;
use crate::shell::before_others;

pub(super) fn findings(report: &InstallationReport, machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    let again = cure::reinstall(report);
    for part in &report.libraries {
        if let Err(refusal) = &part.identity {
            let cure = refusal.help().unwrap_or_else(|| again.clone());
            found.push(Finding::new(BROKEN, format!("{} {refusal}", part.path.printable())).help(cure));
        }
    }
    for (part, refusal) in report.conflicts() {
        let kind = if matches!(refusal, ProbeError::MixedCuda { .. }) { MIXED_CUDA } else { MIXED_VERSIONS };
        let finding = Finding::new(kind, format!("{} {refusal}", part.path.printable()));
        let finding = report
            .evidence
            .iter()
            .fold(finding, |finding, witness| finding.note(format!("{}: {}", witness.value, witness.source)));
        found.push(finding.help(cure::clean_reinstall(report)));
    }
    if report.variant == Variant::Partial && !report.missing.is_empty() {
        let names: Vec<&str> = report.missing.iter().map(|library| library.file_name()).collect();
        let there = report.libraries.len();
        found.push(
            Finding::new(INCOMPLETE, format!("{} of {} libraries are missing", names.len(), names.len() + there))
                .note(format!("missing in {}: {}", report.dir.printable(), names.join(", ")))
                .help(again.clone()),
        );
    }
    if let Some(version) = report.version {
        for fault in release_facts::known_issues(version) {
            found.push(
                Finding::new(KNOWN_FAULT, format!("cuDNN {version}: {}", fault.what))
                    .note(format!("known of releases from {} up to, and not with, {}", fault.from, fault.fixed_in))
                    .help(format!("install cuDNN {} or newer", fault.fixed_in)),
            );
        }
        let oldest = release_facts::min_compute_capability(version);
        for gpu in machine.gpus.iter().filter(|gpu| gpu.compute_capability < oldest) {
            let what = format!("{} has compute capability {}", gpu.name, gpu.capability());
            let finding = Finding::new(OLD_GPU, what).note(format!(
                "cuDNN {version} has kernels from {}.{} on",
                oldest / 10,
                oldest % 10
            ));
            let older = release_facts::min_compute_capability(Version::new(9, 10, 2));
            found.push(match gpu.compute_capability < older {
                true => finding.help("none: no cuDNN 9 has kernels for it; cuDNN 8 may, with an older CUDA"),
                false => finding
                    .note(format!("9.10.2 is the newest release for compute capability {}", gpu.capability()))
                    .help(format!("pip install nvidia-cudnn-cu{}==9.10.2.21", report.cuda_major.unwrap_or(12).min(12))),
            });
        }
    }
    let needed = release_facts::MIN_DRIVER.iter().find(|(major, _)| Some(*major) == report.cuda_major);
    if let (Some((major, needed)), Some(driver)) = (needed, &machine.driver)
        && is_older(driver, needed)
    {
        found.push(
            Finding::new(OLD_DRIVER, format!("driver {driver} is too old for CUDA {major}"))
                .note(format!("this cuDNN is built for CUDA {major}, which needs a driver from {needed} on"))
                .help(format!("install driver {needed} or newer, or cuDNN for an older CUDA")),
        );
    }
    found
}

/// Whether there is a driver at all.
pub(super) fn of_driver(machine: &Machine) -> Option<Finding> {
    let finding = match &machine.library {
        DriverLibrary::Found => {
            return machine.nvml_error.as_ref().map(|trouble| {
                Finding::new(NO_DRIVER, format!("the driver does not answer: {trouble}"))
                    .help("See whether nvidia-smi works; if it does not, install the driver again, or start the machine again.")
            });
        }
        DriverLibrary::Unusable(path, refusal) => {
            let what = format!("libcuda.so.1, the driver's library, is {} and {refusal}", path.printable());
            return Some(Finding::new(NO_DRIVER, what).help(
                "remove that file and install NVIDIA's driver, or start the container with the GPU: docker run --gpus all",
            ));
        }
        DriverLibrary::Missing => {
            Finding::new(NO_DRIVER, "libcuda.so.1, the driver's library, is not found: no GPU can be used")
        }
    };
    let finding = match (&machine.driver, &machine.nvml_error) {
        (Some(driver), _) => finding.note(format!("yet NVML tells of driver {driver}")),
        (None, Some(trouble)) => finding.note(trouble.clone()),
        (None, None) => finding.note("NVML (libnvidia-ml.so.1) does not answer either"),
    };
    let wsl = Path::new("/usr/lib/wsl/lib");
    Some(match wsl.join("libcuda.so.1").exists() {
        true => finding.note(format!("it is in {}", wsl.printable())).help(before_others(wsl)),
        false => finding.help("install NVIDIA's driver, or start the container with the GPU: docker run --gpus all"),
    })
}

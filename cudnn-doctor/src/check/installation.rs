//! The installation itself, and whether it fits the machine.

use cudnn_probe::{InstallationReport, ProbeError, Variant, Version, release_facts};

use super::finding::{
    Finding, INCOMPLETE, KNOWN_ISSUE, MIXED_CUDA, MIXED_VERSIONS, OLD_DRIVER, OLD_GPU, OVERLAPPING_PACKAGES,
    UNUSABLE_LIBRARY,
};
use super::fix_commands;
use super::machine::{Gpu, Machine, capability, is_older};
use crate::escape::Printable;

/// The last release with kernels for compute capabilities 5.0 to 7.0, and its wheels' full version.
const LAST_FOR_OLD_GPUS: (Version, &str) = (Version::new(9, 10, 2), "9.10.2.21");

/// The CUDA majors after this one do not support these GPUs.
const LAST_CUDA_FOR_OLD_GPUS: u32 = 12;

pub(super) fn findings(report: &InstallationReport, machine: &Machine) -> Vec<Finding> {
    let mut findings = unusable(report);
    findings.extend(conflicts(report));
    findings.extend(incomplete(report));
    findings.extend(overlapping_packages(report));
    findings.extend(known_issues(report));
    findings.extend(machine.gpus.iter().filter_map(|gpu| old_gpu(report, gpu)));
    findings.extend(old_driver(report, machine));
    findings
}

fn unusable(report: &InstallationReport) -> Vec<Finding> {
    let finding = |(path, error): (&std::path::PathBuf, &ProbeError)| {
        let help = fix_commands::repair(error, Some(report)).unwrap_or_else(|| fix_commands::reinstall(report));
        Finding::new(UNUSABLE_LIBRARY, format!("{} {error}", path.printable())).help(help)
    };
    let unusable = report.libraries.iter().filter_map(|part| Some((&part.path, part.identity.as_ref().err()?)));
    unusable.map(finding).collect()
}

fn conflicts(report: &InstallationReport) -> Vec<Finding> {
    let evidence = || report.evidence.iter().map(|evidence| format!("{}: {}", evidence.value, evidence.source));
    let finding = |error: &ProbeError, message: String| {
        let kind = if matches!(error, ProbeError::MixedCuda { .. }) { MIXED_CUDA } else { MIXED_VERSIONS };
        Finding::new(kind, message).notes(evidence()).help(fix_commands::reinstall(report))
    };
    let conflicts = report.conflicts();
    conflicts.iter().map(|(part, error)| finding(error, format!("{} {error}", part.path.printable()))).collect()
}

fn incomplete(report: &InstallationReport) -> Option<Finding> {
    if report.variant != Variant::Partial || report.missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = report.missing.iter().map(|library| library.file_name()).collect();
    let (missing, total) = (names.len(), names.len() + report.libraries.len());
    Some(
        Finding::new(INCOMPLETE, format!("{missing} of {total} libraries are missing in {}", report.dir.printable()))
            .note(format!("missing: {}", names.join(", ")))
            .help(fix_commands::reinstall(report)),
    )
}

/// Several packages own the same files: the last one installed has overwritten those of the others.
fn overlapping_packages(report: &InstallationReport) -> Option<Finding> {
    let package = report.package.as_ref().filter(|_| !report.other_packages.is_empty())?;
    let packages = || std::iter::once(package).chain(&report.other_packages);
    let message = format!("{} packages own the files in {}", packages().count(), report.dir.printable());
    Some(
        Finding::new(OVERLAPPING_PACKAGES, message)
            .notes(packages().map(|package| format!("installed: {package}")))
            .help(fix_commands::reinstall(report)),
    )
}

fn known_issues(report: &InstallationReport) -> Vec<Finding> {
    let Some(version) = report.version else { return Vec::new() };
    release_facts::known_issues(version)
        .map(|issue| {
            Finding::new(KNOWN_ISSUE, format!("cuDNN {version} has a known issue: {}", issue.description))
                .note(format!("affects {} through releases before {}", issue.from, issue.fixed_in))
                .help(fix_commands::upgrade(report, Some(issue.fixed_in), None))
        })
        .collect()
}

fn old_gpu(report: &InstallationReport, gpu: &Gpu) -> Option<Finding> {
    let version = report.version?;
    let minimum = release_facts::min_compute_capability(version);
    if gpu.compute_capability >= minimum {
        return None;
    }
    let message = format!(
        "cuDNN {version} does not support {}: its compute capability is {}, the minimum is {}",
        gpu.name,
        gpu.capability(),
        capability(minimum)
    );
    let finding = Finding::new(OLD_GPU, message);
    let (last, wheel_version) = LAST_FOR_OLD_GPUS;
    Some(if gpu.compute_capability < release_facts::min_compute_capability(last) {
        finding.help("no cuDNN 9 supports this GPU; use cuDNN 8 with an older CUDA, or a newer GPU")
    } else {
        finding
            .note(format!("{last} is the last release for compute capability {}", gpu.capability()))
            .help(fix_commands::install_version(report, wheel_version, LAST_CUDA_FOR_OLD_GPUS))
    })
}

fn old_driver(report: &InstallationReport, machine: &Machine) -> Option<Finding> {
    let (major, minimum) = release_facts::MIN_DRIVER.iter().find(|(major, _)| Some(*major) == report.cuda_major)?;
    let driver = machine.driver.as_ref().filter(|driver| is_older(driver, minimum))?;
    Some(
        Finding::new(
            OLD_DRIVER,
            format!("driver {driver} is too old for CUDA {major}, which needs {minimum} or newer"),
        )
        .note(format!("the cuDNN in {} is built for CUDA {major}", report.dir.printable()))
        .help(format!("install driver {minimum} or newer, or a cuDNN for an older CUDA major")),
    )
}

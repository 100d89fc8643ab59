//! Checks whether the GPU code in the installation's files runs on the GPUs of this machine (C041). `installation`
//! checks the minimum compute capability of the release.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::Jetson;
use cudnn_frameworks::installation::{ArmVariant, InstallationReport, Installer, Variant};
use cudnn_probe::release_facts::TegraChip;
use cudnn_probe::{Candidate, GpuCode, Library, Origin, Requirements, check_dir};

use super::finding::{Finding, FindingKind, NO_KERNELS, Severity};
use super::machine::{Gpu, Machine};
use super::remedies::{self, Wanted};
use crate::context::Context;
use crate::remedy::Remedy;

/// From this compute capability on, GPUs share no kernels in the releases that support them. Older GPUs do: 8.9 runs
/// kernels for 8.6. Source: docs/measurements/aarch64-gpu-code.md.
const FIRST_WITH_OWN_KERNELS: u32 = 90;

type Code = [(Library, BTreeSet<GpuCode>)];

pub(super) fn findings<'a>(
    report: &InstallationReport,
    gpus: impl Iterator<Item = &'a Gpu>,
    machine: &Machine,
    context: &Context,
) -> Vec<Finding> {
    let mut gpus = gpus.peekable();
    let code = if gpus.peek().is_some() { report.gpu_code() } else { Vec::new() };
    gpus.filter_map(|gpu| finding(report, &code, gpu, machine, context)).collect()
}

/// Returns the libraries with GPU code that this GPU cannot run. A PTX kernel in one library is not enough for cuDNN.
fn lacking<'a>(code: &'a Code, gpu: &Gpu) -> Vec<&'a (Library, BTreeSet<GpuCode>)> {
    let runs = |code: &BTreeSet<GpuCode>| code.iter().any(|code| code.runs_on(gpu.compute_capability));
    code.iter().filter(|(_, code)| !runs(code)).collect()
}

fn finding(
    report: &InstallationReport,
    code: &Code,
    gpu: &Gpu,
    machine: &Machine,
    context: &Context,
) -> Option<Finding> {
    let lacking = lacking(code, gpu);
    let targets: BTreeSet<GpuCode> = lacking.iter().flat_map(|(_, code)| code.iter().copied()).collect();
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let libraries: Vec<&str> = lacking.iter().map(|(library, _)| library.name_on(report.os)).collect();
    if libraries.is_empty() {
        return newer_gpu(report, code, gpu);
    }
    let version = report.version.map_or(String::new(), |version| format!(" {version}"));
    let (dir, name, capability) = (report.dir.printable(), gpu.name.printable(), gpu.capability());
    let message = format!("cuDNN{version} in {dir} has no kernels for {name} (compute capability {capability})");
    let build = report.arm_variant.map(|variant| {
        let value = format!("{variant} build");
        let evidence = report.evidence.iter().find(|evidence| evidence.value == value);
        format!("it is a {value}: {}", evidence.map_or("", |evidence| evidence.source.as_str()))
    });
    let chip = TegraChip::with_compute_capability(gpu.compute_capability);
    let is_wheel = report.package.as_ref().is_some_and(|package| package.installer == Installer::Pip);
    let for_servers = chip.filter(|chip| is_wheel && chip.server_builds_since.is_none());
    Some(
        Finding::new(NO_KERNELS, message)
            .note(format!("GPU code in {}: for {}", libraries.join(", "), targets.join(" ")))
            .notes(build)
            .notes(machine.jetson.as_ref().map(|jetson| format!("this machine is a {}", description(jetson))))
            .notes(
                for_servers.map(|_| "frameworks from the package index are for servers, too: use builds for JetPack"),
            )
            .remedy(help(report, gpu, chip, machine.jetson.as_ref(), context)),
    )
}

/// C041, as a note: the GPU is newer than the release, and runs kernels for older GPUs.
fn newer_gpu(report: &InstallationReport, code: &Code, gpu: &Gpu) -> Option<Finding> {
    let runs = |code: &&GpuCode| code.runs_on(gpu.compute_capability);
    let own = |code: &GpuCode| code.compute_capability == gpu.compute_capability;
    let used: BTreeSet<GpuCode> = code.iter().flat_map(|(_, code)| code.iter().filter(runs).copied()).collect();
    let has_kernels = code.iter().any(|(_, code)| code.iter().any(|code| !code.is_ptx));
    let is_newer = gpu.compute_capability >= FIRST_WITH_OWN_KERNELS && !gpu.is_tegra();
    // The JIT-only set compiles kernels for every GPU.
    if !has_kernels || !is_newer || used.is_empty() || used.iter().any(own) || report.variant == Variant::JitOnly {
        return None;
    }
    let version = report.version.map_or(String::new(), |version| format!(" {version}"));
    let (name, capability) = (gpu.name.printable(), gpu.capability());
    let used: Vec<String> = used.iter().map(ToString::to_string).collect();
    let message =
        format!("cuDNN{version} has no kernels of its own for {name}, whose compute capability is {capability}");
    let kind = FindingKind { severity: Severity::Note, ..NO_KERNELS };
    Some(
        Finding::new(kind, message)
            .note(format!("it runs code for {}", used.join(" ")))
            .note("operations can be slow, or not supported")
            .remedy("install a newer release that lists this compute capability in NVIDIA's support matrix"),
    )
}

/// Describes the machine: `Jetson Orin: nvidia,tegra234 (/proc/device-tree/compatible), L4T 36.4.3
/// (/etc/nv_tegra_release)`.
pub fn description(jetson: &Jetson) -> String {
    let evidence = jetson.evidence.iter().map(|evidence| format!("{} ({})", evidence.value, evidence.source));
    format!("{}: {}", jetson.name(), evidence.collect::<Vec<_>>().join(", "))
}

fn help(
    report: &InstallationReport,
    gpu: &Gpu,
    chip: Option<&TegraChip>,
    jetson: Option<&Jetson>,
    context: &Context,
) -> Remedy {
    if let Some(dir) = other_with_kernels(report, gpu, context) {
        return remedies::use_other(&dir);
    }
    let Some(chip) = chip else {
        return if report.arm_variant == Some(ArmVariant::L4t) {
            remedies::server_build(report, context)
        } else {
            Remedy::new(
                "install a release of cuDNN, or one for another CUDA major, that lists this compute capability in \
                 NVIDIA's support matrix",
            )
        };
    };
    // Builds for servers have kernels for it.
    if let Some(since) = chip.server_builds_since.filter(|since| report.cuda_major.is_some_and(|cuda| cuda < *since)) {
        let wanted = Wanted { cuda_major: Some(since), ..Wanted::default() };
        return remedies::upgrade_to_requirement(report, &wanted, &[], context).unwrap_or_else(Remedy::new);
    }
    match jetson.and_then(|jetson| Some((jetson.l4t?, jetson.jetpack_cuda()))) {
        Some((_, Some(cuda_major))) => remedies::install_jetpack(cuda_major, chip.product),
        Some((l4t, None)) => Remedy::new(format!(
            "JetPack for L4T {l4t} has cuDNN 8: install JetPack 6 or newer, if there is one for this machine, or use a \
             program that is built for cuDNN 8"
        )),
        None => Remedy::new(
            "install NVIDIA's packages for JetPack (libcudnn9-cuda-12 with JetPack 6, libcudnn9-cuda-13 with JetPack 7); \
             in a container, use an image for Jetson",
        ),
    }
}

/// Returns a different installation for the same CUDA that has kernels for this GPU.
fn other_with_kernels(report: &InstallationReport, gpu: &Gpu, context: &Context) -> Option<PathBuf> {
    let is_usable = |other: &InstallationReport| {
        other.dir != report.dir
            && other.may_share_cuda(report)
            && check_dir(&Candidate::new(&other.dir, Origin::Explicit), &Requirements::default()).is_ok()
    };
    let has_kernels = |other: &InstallationReport| {
        let code = other.gpu_code();
        !code.is_empty() && lacking(&code, gpu).is_empty()
    };
    let others = context.inventory().into_iter().map(|installed| installed.report);
    { others }.find(|other| is_usable(other) && has_kernels(other)).map(|other| other.dir)
}

#[cfg(all(test, unix))]
mod tests;

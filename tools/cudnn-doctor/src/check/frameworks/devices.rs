//! Whether the driver and the GPUs of this machine run what a framework was built for.

use cudnn_frameworks::{Framework, Survey};
use cudnn_probe::Os;
use cudnn_probe::packages::Command;

use super::text::{release, source, title};
use crate::check::finding::{FRAMEWORK_CPU_ONLY, FRAMEWORK_DRIVER, FRAMEWORK_OLD_GPU, FRAMEWORK_PTX, Finding};
use crate::check::fix_commands::with_commands;
use crate::check::machine::{Gpu, Machine, capability};
use crate::check::place::Place;
use crate::escape::Printable;

pub(super) fn driver(framework: &Framework, machine: &Machine) -> Option<Finding> {
    let cuda = framework.built_for.cuda.as_ref()?;
    let (major, minor) = cuda.value;
    let (driver, minimum) = machine.too_old_for(major)?;
    let release = release(major, minor);
    let message = format!("{} is built for CUDA {release}, which {driver} does not run", title(framework));
    let name = framework.kind.name;
    Some(
        Finding::new(FRAMEWORK_DRIVER, message)
            .note(format!("CUDA {major} needs driver {minimum} or newer"))
            .note(format!("CUDA {release}: {}", source(&cuda.source)))
            .help(format!("install driver {minimum} or newer, or a build of {name} for an older CUDA")),
    )
}

/// Its own kernels, for this GPU.
pub(super) fn kernels(framework: &Framework, gpu: &Gpu) -> Option<Finding> {
    let built = framework.built_for.gpu_code.as_ref().filter(|code| !code.value.is_empty())?;
    if framework.built_for.compiles_at_run_time {
        return None;
    }
    let has = gpu.compute_capability;
    if built.value.iter().any(|code| !code.is_ptx && code.runs_on(has)) {
        return None;
    }
    let all: Vec<String> = built.value.iter().map(ToString::to_string).collect();
    let gpu_text = format!("{} (compute capability {})", gpu.name.printable(), capability(has));
    let note = format!("its kernels are for {} ({})", all.join(" "), source(&built.source));
    let name = framework.kind.name;
    let has_ptx = built.value.iter().any(|code| code.is_ptx && code.runs_on(has));
    Some(if has_ptx {
        Finding::new(FRAMEWORK_PTX, format!("{} has no kernels for {gpu_text}, only PTX", title(framework)))
            .note(note)
            .help("the driver compiles them when they are first used, which takes minutes once; CUDA_CACHE_MAXSIZE keeps them")
    } else {
        Finding::new(FRAMEWORK_OLD_GPU, format!("{} has no kernels for {gpu_text}", title(framework))).note(note).help(
            format!("install a release of {name}, or a build for another CUDA, that lists this compute capability"),
        )
    })
}

/// Whether two packages with one directory contain it, one of which is for the CPU alone: the last one installed counts.
pub(super) fn is_overwritten(framework: &Framework, survey: &Survey) -> bool {
    twin(framework, survey).is_some()
}

/// The package for a GPU if this one is for the CPU, and the other way round, with the same directory.
fn twin<'a>(framework: &Framework, survey: &'a Survey) -> Option<&'a Framework> {
    let is_cpu = |framework: &Framework| framework.kind.is_cpu_package(&framework.distribution.name);
    let has_same_dir = |other: &Framework| framework.dir.is_some() && other.dir == framework.dir;
    survey.frameworks.iter().find(|other| {
        std::ptr::eq(other.kind, framework.kind) && has_same_dir(other) && is_cpu(other) != is_cpu(framework)
    })
}

/// A build without CUDA: on a machine that has a GPU, or in place of one with CUDA.
pub(super) fn cpu_only(framework: &Framework, survey: &Survey, machine: &Machine) -> Option<Finding> {
    let gpu_package = twin(framework, survey);
    let gpu = machine.gpus.first().map(|gpu| gpu.name.printable());
    if gpu.is_none() && gpu_package.is_none() {
        return None;
    }
    // Two packages with one directory are one finding; and a package for the CPU alone is somebody's choice.
    if gpu_package.is_some() != framework.kind.is_cpu_package(&framework.distribution.name) {
        return None;
    }
    let note = framework.built_for.uses_gpu.as_ref().map(|uses_gpu| source(&uses_gpu.source));
    let built = if framework.built_for.rocm.is_some() { "for AMD's ROCm" } else { "without GPU support" };
    let unused = match (gpu, gpu_package) {
        (Some(gpu), _) => format!(", and does not use {gpu}"),
        (None, Some(other)) => format!(": it has replaced files of {}", other.distribution.name),
        (None, None) => String::new(),
    };
    let message = format!("{} is built {built}{unused}", title(framework));
    let finding = Finding::new(FRAMEWORK_CPU_ONLY, message).notes(note);
    if framework.os == Os::Windows && framework.kind.without_gpu_on_windows(&framework.version).is_some() {
        let name = framework.kind.name;
        return Some(finding.help(format!(
            "no build of this {name} for Windows uses a GPU of NVIDIA's: install {name} in WSL2, as on Linux"
        )));
    }
    let Some(gpu_package) = gpu_package else {
        return Some(finding.help("install its build for CUDA, if the program shall use the GPU"));
    };
    let (this, other) = (&framework.distribution.name, &gpu_package.distribution.name);
    let place = Place::of(framework, survey);
    let remove = place.uninstall(std::slice::from_ref(this));
    let text = format!("{this} and {other} own the same files: remove {this}, then install {other} again");
    // None for a package that only a private index has.
    let again = place.reinstall_package(other, &gpu_package.distribution.version);
    let Some(again) = again else { return Some(finding.help(text)) };
    let commands: Vec<Command> = remove.into_iter().chain([again]).collect();
    let text = format!("{text}:");
    Some(finding.help(with_commands(text, &commands)))
}

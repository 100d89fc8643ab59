//! Checks whether the GPUs and the driver support the framework's build: C075, C076, C077.

use super::context::FrameworkContext;
use super::text::{release, source};
use crate::check::finding::{FRAMEWORK_DRIVER, FRAMEWORK_OLD_GPU, FRAMEWORK_PTX, Finding};
use crate::check::machine::{Gpu, capability};
use crate::escape::Printable;

/// C075: the driver is too old for the framework's CUDA.
pub(super) fn old_driver(context: &FrameworkContext<'_>) -> Option<Finding> {
    let cuda = context.framework.built_for.cuda.as_ref()?;
    let (major, minor) = cuda.value;
    let (driver, minimum) = context.machine.too_old_for(major)?;
    let release = release(major, minor);
    let message = format!("{} is built for CUDA {release}, which {driver} does not support", context.title());
    let name = context.framework.kind.name;
    Some(
        Finding::new(FRAMEWORK_DRIVER, message)
            .note(format!("CUDA {major} needs driver {minimum} or newer"))
            .note(format!("CUDA {release}: {}", source(&cuda.source)))
            .remedy(format!("install driver {minimum} or newer, or a build of {name} for an older CUDA")),
    )
}

/// C076, C077: the framework has no kernels for a GPU, or only PTX that the driver compiles.
pub(super) fn kernels(context: &FrameworkContext<'_>) -> Option<Finding> {
    let built_for = &context.framework.built_for;
    let built = built_for.gpu_code.as_ref().filter(|code| !code.value.is_empty() && !built_for.compiles_at_run_time)?;
    let runs = |gpu: &Gpu, is_ptx: bool| {
        built.value.iter().any(|code| code.is_ptx == is_ptx && code.runs_on(gpu.compute_capability))
    };
    let mut unserved: Vec<&Gpu> = context.machine.gpus.iter().filter(|gpu| !runs(gpu, false)).collect();
    unserved.sort_by_key(|gpu| runs(gpu, true));
    let texts = unserved
        .iter()
        .map(|gpu| format!("{} (compute capability {})", gpu.name.printable(), capability(gpu.compute_capability)));
    let mut texts: Vec<String> = texts.collect();
    texts.dedup();
    let (gpu, others) = texts.split_first()?;
    let (title, name) = (context.title(), context.framework.kind.name);
    let finding = if unserved.first().is_some_and(|gpu| runs(gpu, true)) {
        Finding::new(FRAMEWORK_PTX, format!("{title} has no kernels for {gpu}, only PTX")).remedy(
            "the driver compiles them on first use, which takes minutes once; CUDA_CACHE_MAXSIZE determines whether \
             they stay cached",
        )
    } else {
        Finding::new(FRAMEWORK_OLD_GPU, format!("{title} has no kernels for {gpu}")).remedy(format!(
            "install a release of {name}, or a build for another CUDA, that lists this compute capability"
        ))
    };
    let all: Vec<String> = built.value.iter().map(ToString::to_string).collect();
    let note = format!("its kernels are for {} ({})", all.join(" "), source(&built.source));
    Some(finding.note(note).notes(others.iter().map(|other| format!("nor for {other}"))))
}

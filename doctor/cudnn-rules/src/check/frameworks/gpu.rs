//! Checks whether the GPUs and the driver support the framework's build: C075, C076, C077.

use cudnn_cli::escape::Printable;
use cudnn_frameworks::ValueSource;
use cudnn_frameworks::builds::{self, Build, Builds};

use super::context::FrameworkContext;
use super::text::{release, source};
use crate::check::finding::{FRAMEWORK_DRIVER, FRAMEWORK_OLD_GPU, FRAMEWORK_PTX, Finding};
use crate::check::framework_requirement::is_of_conda;
use crate::check::machine::Gpu;

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

/// C076, C077: the framework lacks kernels for a GPU, or contains only PTX that the driver compiles.
pub(super) fn kernels(context: &FrameworkContext<'_>) -> Option<Finding> {
    let built_for = &context.framework.built_for;
    let built = built_for.gpu_code.as_ref().filter(|code| !code.value.is_empty() && !built_for.compiles_at_run_time)?;
    let runs = |gpu: &Gpu, is_ptx: bool| {
        built.value.iter().any(|code| code.is_ptx == is_ptx && code.runs_on(gpu.compute_capability))
    };
    let mut unserved: Vec<&Gpu> = context.machine.gpus.iter().filter(|gpu| !runs(gpu, false)).collect();
    unserved.sort_by_key(|gpu| runs(gpu, true));
    let text = |gpu: &&Gpu| format!("{} (compute capability {})", gpu.name.printable(), gpu.capability());
    let mut texts: Vec<String> = unserved.iter().map(text).collect();
    texts.dedup();
    let (gpu, others) = texts.split_first()?;
    let (title, is_ptx) = (context.title(), unserved.first().is_some_and(|gpu| runs(gpu, true)));
    let (kind, only) = if is_ptx { (FRAMEWORK_PTX, ", only PTX") } else { (FRAMEWORK_OLD_GPU, "") };
    let all: Vec<String> = built.value.iter().map(ToString::to_string).collect();
    let finding = Finding::new(kind, format!("{title} has no kernels for {gpu}{only}"))
        .note(format!("its kernels are for {} ({})", all.join(" "), source(&built.source)))
        .notes(others.iter().map(|other| format!("nor for {other}")));
    Some(if is_ptx {
        finding.remedy(
            "the driver compiles them on first use, which takes minutes once; CUDA_CACHE_MAXSIZE determines whether \
             they stay cached",
        )
    } else {
        with_kernels(context, finding)
    })
}

fn with_kernels(context: &FrameworkContext<'_>, finding: Finding) -> Finding {
    let (framework, name) = (context.framework, context.framework.kind.name);
    let gpus: Vec<u32> = context.machine.gpus.iter().map(|gpu| gpu.compute_capability).collect();
    let is_usable = |cuda_major: u32| context.machine.too_old_for(cuda_major).is_none();
    let builds = builds::for_gpus(&framework.distribution.name, &framework.version, &gpus, is_usable);
    let Some(builds) = builds.filter(|_| !is_of_conda(framework)) else {
        return finding.remedy(format!(
            "install a release of {name}, or a build for another CUDA, that lists this compute capability"
        ));
    };
    let tagged = |build: &Build| format!("{} ({})", build.cuda, build.tag());
    let each = |all: &[&Build]| all.iter().map(|build| tagged(build)).collect::<Vec<String>>().join(" or ");
    let (what, first) = match &builds {
        Builds::OfRelease(all) => {
            let version = framework.version.split('+').next().unwrap_or_default();
            (format!("the build of {name} {version} for CUDA {}", each(all)), all.first().copied())
        }
        Builds::Older(build) => {
            let before = build.before.unwrap_or_default();
            (format!("{name} older than {before} in its build for CUDA {}", tagged(build)), Some(*build))
        }
        Builds::Newer(all) => {
            let since = all.first().map_or("", |build| build.since);
            (format!("{name} {since} or newer in a build for CUDA {}", each(all)), all.first().copied())
        }
    };
    let citation = first.map(|build| ValueSource::Fact { citation: build.source, is_older_than_package: false });
    finding
        .notes(citation.map(|citation| format!("kernels of other builds: {}", source(&citation))))
        .remedy(format!("install {what} from {name}'s own package index, by pip with `--index-url`"))
}

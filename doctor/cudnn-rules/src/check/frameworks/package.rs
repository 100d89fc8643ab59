//! Checks a framework's own package: C079, C086.

use std::path::PathBuf;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::{Framework, MissingLibrary};
use cudnn_probe::Os;

use super::context::{FrameworkContext, other_build, reinstall_package};
use super::remedy::install_again;
use super::text::{source, title};
use crate::check::finding::{FRAMEWORK_CPU_ONLY, FRAMEWORK_DAMAGED, Finding, FindingKind, Severity};
use crate::check::framework_requirement::is_without_cuda;
use crate::check::remedies::by_change;
use crate::remedy::Remedy;

const MAX: usize = 8;

/// C086: files are missing or damaged. A note if no import needs them.
pub(super) fn damaged(context: &FrameworkContext<'_>) -> Option<Finding> {
    let framework = context.framework;
    // C080 reports unreadable files, and C079 two packages with the same files.
    if context.is_closed() || other_build(framework, context.survey).is_some() {
        return None;
    }
    let missing_files = &framework.missing_files;
    let others = missing_files.count.saturating_sub(missing_files.necessary.len());
    let rest = missing_files.others.first().filter(|_| others > 0).map(|first| match others {
        1 => format!("{}, which the package record lists, is missing", first.printable()),
        _ => {
            format!("{} and {} other files, which the package record lists, are missing", first.printable(), others - 1)
        }
    });
    let Problems { problems, of_system } = Problems::of(context);
    let title = title(framework);
    let (kind, message) = match (problems.as_slice(), &rest) {
        ([], None) => return None,
        _ if of_system.len() == problems.len() && !problems.is_empty() => {
            (FRAMEWORK_DAMAGED, format!("{title} cannot be imported: {}", problems.join(", and ")))
        }
        // Container images are often made smaller in this way.
        ([], Some(rest)) => (FindingKind { severity: Severity::Note, ..FRAMEWORK_DAMAGED }, format!("{title}: {rest}")),
        ([one], _) => (FRAMEWORK_DAMAGED, format!("{title} is damaged: {one}")),
        (all, _) => (FRAMEWORK_DAMAGED, format!("{title} is damaged: {} files are missing or unusable", all.len())),
    };
    let from_system = format!("install the system's package with {}", of_system.join(", and the one with "));
    let remedy = if problems.is_empty() {
        "install it again, unless somebody has removed them to save space".into()
    } else if of_system.len() == problems.len() {
        from_system.into()
    } else if of_system.is_empty() {
        install_again(context)
    } else {
        let again = install_again(context);
        let text = format!("{from_system}, and {}", again.text);
        again.with_text(text)
    };
    let notes = problems.iter().chain(&rest).filter(|note| !message.ends_with(note.as_str()));
    let finding = Finding::new(kind, &message).notes(notes.take(MAX));
    Some(finding.remedy(remedy))
}

struct Problems {
    problems: Vec<String>,
    /// The missing system libraries among the problems.
    of_system: Vec<String>,
}

impl Problems {
    fn of(context: &FrameworkContext<'_>) -> Problems {
        let (framework, opens) = (context.framework, &context.framework.opens);
        let necessary = &framework.missing_files.necessary;
        let is_listed = |library: &&MissingLibrary| necessary.iter().any(|file| file.ends_with(&library.name));
        let missing_libraries = || opens.missing_libraries.iter().filter(|library| !is_listed(library));
        let of_system = missing_libraries().filter(|one| !is_of_package(one, framework));
        let of_system: Vec<String> = of_system.map(|library| library.name.printable()).collect();
        let missing = necessary.iter().map(|file| format!("{} is missing", file.printable()));
        let needed = missing_libraries()
            .map(|one| format!("{} is missing, which {} needs", one.name.printable(), one.needed_by.printable()));
        let damaged = opens.damaged_others.iter().filter(|damaged| context.owns(damaged));
        let damaged = damaged.map(|one| format!("{} {}", one.path.printable(), one.reason.printable()));
        let mut problems: Vec<String> = missing.chain(needed).chain(damaged).collect();
        let is_known = opens.needs_none || opens.is_unexamined || !opens.users.is_empty() || is_without_cuda(framework);
        let is_known = is_known || framework.kind.cudnn_loader().is_some();
        if problems.is_empty() && !is_known {
            problems
                .extend(framework.dir.iter().map(|dir| format!("no usable library of it is in {}", dir.printable())));
        }
        Problems { problems, of_system }
    }
}

/// Returns whether a missing library belongs to the package, because the record lists it or because the name contains
/// the hash that wheel tools add to copies.
fn is_of_package(missing_libraries: &MissingLibrary, framework: &Framework) -> bool {
    let is_hash = |text: &str| text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stem = missing_libraries.name.split(".so").next().unwrap_or_default();
    let is_it = |file: &PathBuf| file.ends_with(&missing_libraries.name);
    stem.rsplit_once('-').is_some_and(|(_, hash)| is_hash(hash))
        || framework.missing_files.others.iter().chain(&framework.missing_files.necessary).any(is_it)
}

/// C079: a build without CUDA on a machine with a GPU, or in place of a build with CUDA.
pub(super) fn cpu_only(context: &FrameworkContext<'_>) -> Option<Finding> {
    let (framework, name) = (context.framework, context.framework.kind.name);
    let gpu_package = other_build(framework, context.survey);
    let gpu = context.machine.gpus.first().map(|gpu| gpu.name.printable());
    // Two packages in one directory cause one finding. Users of a CPU-only package have chosen it.
    if gpu_package.is_some() != framework.kind.is_cpu_package(&framework.distribution.name) {
        return None;
    }
    let unused = match (gpu, gpu_package) {
        (Some(gpu), _) => format!(", and does not use {gpu}"),
        (None, Some(other)) => format!(": it has replaced files of {}", other.distribution.name),
        (None, None) => return None,
    };
    let note = framework.built_for.uses_gpu.as_ref().map(|uses_gpu| source(&uses_gpu.source));
    let built = if framework.built_for.rocm.is_some() { "for AMD's ROCm" } else { "without GPU support" };
    let message = format!("{} is built {built}{unused}", title(framework));
    let finding = Finding::new(FRAMEWORK_CPU_ONLY, message).notes(note);
    if framework.os == Os::Windows && framework.kind.without_gpu_on_windows(&framework.version).is_some() {
        return Some(finding.remedy(format!(
            "no build of this {name} for Windows uses NVIDIA GPUs: install {name} in WSL2, as on Linux"
        )));
    }
    let Some(gpu_package) = gpu_package else {
        return Some(finding.remedy("install its build for CUDA if the program should use the GPU"));
    };
    let (this, other) = (&framework.distribution.name, &gpu_package.distribution.name);
    let text = format!("{this} and {other} own the same files: remove {this}, then install {other} again");
    // `None` for a package that only a private index has.
    Some(finding.remedy(match reinstall_package(&context.site(), other, &gpu_package.distribution.version) {
        Some(again) => by_change(format!("{text}:"), again.remove([this.clone()])),
        None => Remedy::new(text),
    }))
}

//! Checks the cuDNN that a framework would load: C070, C071, C072, C085, C087, C088.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::collections::HashSet;
use std::path::Path;

use cudnn_frameworks::installation::{InstallationReport, Variant};
use cudnn_frameworks::{OpenedFile, Opens, SearchRule, is_cudnn};
use cudnn_probe::{Library, Os};

use super::context::{FrameworkContext, graph, is_graph};
use super::remedy::{install, keep_apart, or_by_program, reach, reinstall, start_without, without_preload};
use super::text::{drop_in_note, first_of, found, how, release, source};
use crate::check::absent_library::AbsentLibrary;
use crate::check::finding::{
    FRAMEWORK_DAMAGED_CUDNN, FRAMEWORK_HALF_SEARCHED, FRAMEWORK_MIX, FRAMEWORK_NO_CUDNN, FRAMEWORK_OLD_CUDNN,
    FRAMEWORK_OPTIONAL_CUDNN, Finding, FindingKind, Severity,
};
use crate::check::framework_requirement::WHEEL;
use crate::check::installation;
use crate::dependencies::{Dependency, OLDER_SHIM, mixes, with_canonical_dir};
use crate::remedy::Remedy;

/// C071: the cuDNN is for a different CUDA. The kernels need a cuBLASLt and an NVRTC that the framework's CUDA lacks.
pub(super) fn for_other_cuda(context: &FrameworkContext<'_>) -> Option<Finding> {
    let built = context.framework.built_for.cuda.as_ref()?;
    let (major, minor) = built.value;
    let graph = graph(context.framework)?;
    let other = context.report?.cuda_major.filter(|other| *other != major)?;
    let (title, release) = (context.title(), release(major, minor));
    let message = format!("{title} is built for CUDA {release}, and would load a cuDNN for CUDA {other}");
    let built = format!("built for CUDA {release} ({})", source(&built.source));
    let finding = Finding::new(FRAMEWORK_OLD_CUDNN, message).note(found(graph)).note(built);
    // The shim opens the graph library in its own directory.
    let preloaded = context.framework.opens.cudnn.iter().find_map(without_preload);
    Some(match preloaded {
        Some(remedy) => finding.remedy(remedy),
        None if context.is_beside(graph) => finding.notes(drop_in_note(context.framework)).remedy(install(context)),
        None => finding.remedy(start_without(graph, &format!("install a cuDNN for CUDA {major} in place of the one"))),
    })
}

pub(super) fn missing(context: &FrameworkContext<'_>) -> Option<Finding> {
    let opens = &context.framework.opens;
    if opens.needs_none
        || opens.is_unexamined
        || opens.users.is_empty()
        || !opens.cudnn.is_empty()
        || !opens.half_searched.is_empty()
    {
        return None;
    }
    let kind = if opens.is_optional { FRAMEWORK_OPTIONAL_CUDNN } else { FRAMEWORK_NO_CUDNN };
    let name = opens.name.as_deref().unwrap_or("cuDNN").printable();
    let finding = Finding::new(kind, format!("{} would not find {name}", context.title()))
        .notes(opens.users.first().map(|user| format!("needed by {}", user.printable())))
        .notes(damaged(opens))
        .notes(built_for(context))
        .notes(not_required(context));
    Some(or_by_program(finding.remedy(reach(context)), context))
}

/// Explains why pip installed a framework without cuDNN: the package works with any release and requires no particular
/// one.
fn not_required(context: &FrameworkContext<'_>) -> Option<String> {
    let framework = context.framework;
    let is_required = framework.pins.iter().any(|pin| pin.package.starts_with(WHEEL));
    let name = framework.distribution.name.printable();
    let is_alone = framework.kind.accompanies_others && !is_required;
    is_alone.then(|| format!("the package {name} requires no cuDNN, so that pip installs it without one"))
}

/// C072: the framework mixes libraries of different releases, CUDA majors or directories, or a file was changed.
pub(super) fn mixed(context: &FrameworkContext<'_>) -> Option<Finding> {
    let finding = across_directories(context).or_else(|| in_its_directory(context))?;
    Some(finding.notes(built_for(context)))
}

/// C071: the framework rejects the release.
pub(super) fn too_old(context: &FrameworkContext<'_>) -> Option<Finding> {
    let (framework, opens) = (context.framework, &context.framework.opens);
    let (wanted, version, first) = (framework.built_for.cudnn.as_ref()?.value, opens.version()?, opens.cudnn.first()?);
    if framework.kind.comparison.accepts(wanted, version) {
        return None;
    }
    let message = format!("{} would load cuDNN {version}, but accepts {wanted} or newer", context.title());
    let of_drop_in = opens.cudnn.iter().find(|opened| opened.by == SearchRule::DropIn);
    let is_for = framework.kind.minimum_is_for();
    let severity = is_for.map_or(FRAMEWORK_OLD_CUDNN.severity, |_| Severity::Warning);
    let kind = FindingKind { severity, ..FRAMEWORK_OLD_CUDNN };
    let finding = Finding::new(kind, message).note(found(first)).notes(of_drop_in.map(found));
    let finding = finding.notes(is_for.map(|what| format!("it refuses only {what} with an older one")));
    let finding = finding.notes(built_for(context));
    let first = of_drop_in.unwrap_or(first);
    Some(if context.is_beside(first) {
        finding.notes(drop_in_note(framework)).remedy(install(context))
    } else {
        finding.remedy(start_without(first, "upgrade the cuDNN"))
    })
}

/// C087: libraries are missing or damaged. C070 if only the shim exists.
pub(super) fn incomplete(context: &FrameworkContext<'_>) -> Option<Finding> {
    let opens = &context.framework.opens;
    let first = opens.cudnn.first()?;
    let damaged: Vec<String> = damaged(opens).collect();
    let is_damaged = |name: &str| opens.damaged.iter().any(|damaged| damaged.path.ends_with(name));
    let is_jit_enough = context.framework.kind.accompanies_others && is_jit_only(first, context);
    let missing = opens.missing.iter().filter(|name| is_cudnn(name) && !is_damaged(name) && !is_jit_enough);
    let missing: Vec<String> = missing.map(|name| name.printable()).collect();
    let title = context.title();
    let (kind, message) = match (first_of(&damaged), first_of(&missing)) {
        (Some(damaged), _) => {
            (FRAMEWORK_DAMAGED_CUDNN, format!("the cuDNN that {title} would load is damaged: {damaged}"))
        }
        (None, None) => return None,
        (None, Some(missing)) if opens.cudnn.len() == 1 => {
            (FRAMEWORK_NO_CUDNN, format!("{title} would not find {missing}"))
        }
        (None, Some(missing)) => {
            (FRAMEWORK_DAMAGED_CUDNN, format!("the cuDNN that {title} would load is incomplete: it lacks {missing}"))
        }
    };
    let list = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    let finding = Finding::new(kind, message).notes(damaged.iter().skip(1)).notes(list).note(found(first));
    let is_elsewhere = is_copy(first, context) || !first.path.starts_with(&context.survey.environment.root);
    Some(finding.remedy(if is_elsewhere { reach(context) } else { reinstall(context) }))
}

fn is_jit_only(opened: &OpenedFile, context: &FrameworkContext<'_>) -> bool {
    let report = opened.path.parent().and_then(|dir| InstallationReport::read(dir, context.host));
    report.is_some_and(|report| report.variant == Variant::JitOnly)
}

/// C072, as a note: an older shim loads the libraries of a newer release, which works.
pub(super) fn older_shim(context: &FrameworkContext<'_>) -> Option<Finding> {
    let (shim, libraries) = context.framework.opens.cudnn.split_first()?;
    let newer = libraries.iter().find(|other| other.version > shim.version)?;
    // A copy in the framework's package works with libraries of any release.
    if shim.name.starts_with("libcudnn-") || context.framework.dir.as_deref() == shim.path.parent() {
        return None;
    }
    let (title, name) = (context.title(), newer.name.printable());
    let message = format!("{title} would load cuDNN {} ({name}) by the shim of {}", newer.version?, shim.version?);
    let kind = FindingKind { severity: Severity::Note, ..FRAMEWORK_MIX };
    let finding = Finding::new(kind, message).note(found(shim)).note(found(newer)).note(OLDER_SHIM);
    Some(finding.remedy(keep_apart(shim, newer)))
}

/// C088: the framework's Python code searches a directory with more files than the doctor examines.
pub(super) fn half_searched(context: &FrameworkContext<'_>) -> Option<Finding> {
    let opens = &context.framework.opens;
    let dirs: Vec<String> = opens.half_searched.iter().map(|dir| dir.printable()).collect();
    let (title, dirs) = (context.title(), Some(dirs.join(" and ")).filter(|dirs| !dirs.is_empty())?);
    let message =
        format!("{title} may load another cuDNN: it searches {dirs}, which has too many files to examine all");
    let finding = Finding::new(FRAMEWORK_HALF_SEARCHED, message).notes(opens.cudnn.first().map(found));
    let wheels = context.survey.environment.import_dirs.iter().map(|dir| dir.join("nvidia/cudnn"));
    let wheel = { wheels }.find(|dir| dir.join("lib").leads_to_dir());
    let text = "it searches the directory in CUDNN_HOME first: set that to the directory of its cuDNN";
    Some(finding.remedy(match wheel {
        Some(wheel) => Remedy::new(format!("{text}:")).set("CUDNN_HOME", wheel),
        None => text.into(),
    }))
}

fn built_for(context: &FrameworkContext<'_>) -> Option<String> {
    let wanted = context.framework.built_for.cudnn.as_ref()?;
    let verb = if context.framework.kind.cudnn_loader().is_some() { "requires" } else { "built for" };
    Some(format!("{verb} cuDNN {} ({})", wanted.value, source(&wanted.source)))
}

fn damaged(opens: &Opens) -> impl Iterator<Item = String> {
    opens.damaged.iter().map(|damaged| format!("{} {}", damaged.path.printable(), damaged.reason.printable()))
}

/// Returns whether the framework's package contains this copy of the shim, but not the other libraries.
fn is_copy(shim: &OpenedFile, context: &FrameworkContext<'_>) -> bool {
    let framework = context.framework;
    let is_alone = || framework.opens.cudnn.len() == 1 && !framework.kind.contains_cudnn(framework.os);
    shim.name.starts_with("libcudnn-")
        || framework.os == Os::Windows && framework.dir.as_deref() == shim.path.parent() && is_alone()
}

/// C072: ld.so finds libraries of different cuDNN installations in several directories.
fn across_directories(context: &FrameworkContext<'_>) -> Option<Finding> {
    let opens = &context.framework.opens;
    // The drop-in loads all libraries from one directory.
    if opens.has_drop_in {
        return None;
    }
    let files: Vec<Dependency> = opens.cudnn.iter().map(dependency).collect();
    let dirs: HashSet<&Path> = files.iter().filter_map(|file| file.file.as_deref()?.parent()).collect();
    if dirs.len() < 2 {
        return None;
    }
    let mix = mixes(&files).into_iter().find(|mix| !mix.is_in_one_dir && !mix.works)?;
    // The libraries are in loading order.
    let is_either = |file: &Dependency| file.name == Library::Graph.file_name() || file.name == mix.name;
    let mut either = opens.cudnn.iter().zip(&files).filter(|(_, file)| is_either(file)).map(|(opened, _)| opened);
    let (first, other, title) = (either.next()?, either.next()?, context.title());
    let versions = first.version.zip(other.version).filter(|(version, other)| version != other);
    let message = match versions {
        Some((version, other_version)) => {
            let (name, other_name) = (first.name.printable(), other.name.printable());
            format!("{title} would mix cuDNN {version} ({name}) and {other_version} ({other_name})")
        }
        None => format!("{title} would mix two cuDNNs: {}", mix.message),
    };
    let finding = Finding::new(FRAMEWORK_MIX, message).note(found(first)).note(found(other));
    Some(match first.version.and_then(|release| AbsentLibrary::of(release, &other.name)) {
        Some(absent) => finding.note(absent.reason(&other.path)).remedy(absent.advice(&other.path)),
        None => finding.remedy(keep_apart(first, other)),
    })
}

/// Converts a loaded file to a dependency with NVIDIA's library name, because packages may rename their copy of the
/// shim.
fn dependency(opened: &OpenedFile) -> Dependency {
    let of_windows = Library::ALL.iter().find(|library| library.windows_name() == opened.name);
    let name = match of_windows {
        Some(library) => library.file_name(),
        None if opened.name.starts_with("libcudnn-") => Library::Shim.file_name(),
        None if is_graph(&opened.name) => Library::Graph.file_name(),
        None => opened.name.as_str(),
    };
    Dependency {
        dlopened_by: None,
        name: name.to_owned(),
        file: Some(with_canonical_dir(&opened.path)),
        rule: how(opened),
        version: opened.version,
        error: None,
    }
}

/// C072: the directory of the graph library contains files of a different cuDNN.
fn in_its_directory(context: &FrameworkContext<'_>) -> Option<Finding> {
    let graph = graph(context.framework)?;
    let mut foreign = installation::foreign(context.report?, false).into_iter();
    let first = foreign.next()?;
    let kind = FindingKind { severity: first.kind.severity, ..FRAMEWORK_MIX };
    let message = format!("{} would load a cuDNN with a foreign file: {}", context.title(), first.message);
    let finding = Finding::new(kind, message).notes(first.notes).notes(foreign.map(|other| other.message));
    let finding = finding.note(found(graph)).notes(drop_in_note(context.framework));
    Some(Finding { remedy: first.remedy, ..finding })
}

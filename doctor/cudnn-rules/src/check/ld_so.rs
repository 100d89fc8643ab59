//! Checks which files ld.so finds when a program, a framework or cuDNN itself opens a library by name.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{InstallationReport, Variant};
use cudnn_probe::Library;

use super::absent_library::AbsentLibrary;
use super::finding::{Finding, FindingKind, LD_SO_MIX, LINKED_MIX, OTHER_ON_PATH, Severity};
use super::plain_program::{FoundLibrary, find, is_same};
use super::remedies;
use super::remedies::search_first;
use crate::context::Context;
use crate::cudnn_file;
use crate::dependencies::{Dependency, OLDER_SHIM, dependencies, mixes};
use crate::remedy::{Remedy, off_search_path, without_entries};
use crate::shell::split_search_path;

/// C021, C022: programs that load the shim by name find this file.
pub(super) fn found(found: &FoundLibrary, report: &InstallationReport, context: &Context) -> Option<Finding> {
    let FoundLibrary { path, rule } = found;
    if is_same(path.parent()?, &report.dir) {
        return None;
    }
    let dir = report.dir.printable();
    // ld.so skips unreadable files and files for other processors.
    if report.library(Library::Shim).is_some_and(|part| part.identity.is_ok()) {
        return Some(
            other_on_path(path, context)
                .note(format!("found by: {rule}"))
                .note(format!("this project's loader uses the cuDNN in {dir}"))
                .remedy(separate(report, context, std::slice::from_ref(path))),
        );
    }
    let shim = Library::Shim;
    let mix = context.simulation(path).ok().map(dependencies);
    let mix = mix.and_then(|dependencies| mix_of_dirs(&dependencies)).unwrap_or_else(|| {
        format!("ld.so finds {} for the libraries in {dir}, which lack a usable one", path.printable())
    });
    Some(
        Finding::new(LD_SO_MIX, mix)
            .note(match report.library(shim) {
                None => format!("{shim} is missing in {dir}"),
                Some(_) => format!("{shim} in {dir} is unusable"),
            })
            .note(format!("programs that load it by name get {} ({rule})", path.printable()))
            .remedy(remedies::with_shim(report)),
    )
}

/// Checks the libraries that cuDNN's own libraries load. `by_name` is the finding about the shim.
pub(super) fn opened(report: &InstallationReport, context: &Context, by_name: Option<&Finding>) -> Option<Finding> {
    // A second finding about another installation of the same release would be redundant.
    let is_other = by_name.is_some_and(|finding| finding.kind.code == OTHER_ON_PATH.code);
    let mixed = mixed(report, context).filter(|mixed| !is_other || mixed.kind.code != OTHER_ON_PATH.code);
    match (mixed, linked(report, context)) {
        (Some(mixed), Some(linked)) => {
            Some(mixed.note(format!("for programs linked to a sub-library: {}", linked.message)))
        }
        (mixed, linked) => mixed.or(linked),
    }
}

/// Reports a shim outside the installation. If it opens the installation's libraries, two releases are mixed.
fn other_on_path(shim: &Path, context: &Context) -> Finding {
    let dependencies = context.simulation(shim).ok().map(dependencies);
    let message = format!("ld.so finds another {}: {}", Library::Shim, shim.printable());
    match dependencies.and_then(|dependencies| Some((mix_of_dirs(&dependencies)?, kind_of_mix(&dependencies)))) {
        Some((mix, kind)) => {
            let older = (kind.severity == Severity::Note).then_some(OLDER_SHIM);
            Finding::new(kind, mix).note(message).notes(older)
        }
        None => Finding::new(OTHER_ON_PATH, message),
    }
}

/// Checks that NVIDIA's shim and graph open the libraries of the same installation.
fn mixed(report: &InstallationReport, context: &Context) -> Option<Finding> {
    let shim = report.library(Library::Shim)?;
    let dependencies = dependencies(context.simulation(&shim.path).ok()?);
    let graph = dependencies.iter().find(|dependency| dependency.name == Library::Graph.file_name())?;
    let graph_dir = graph.file.as_deref()?.parent()?;
    let problem = mix_of_dirs(&dependencies);
    if problem.is_none() && is_same(graph_dir, &report.dir) {
        return None;
    }
    // Graph finds the engines in its own directory.
    let has_engines = |other: &InstallationReport| {
        let mut engines = Library::OPENED_BY_GRAPH.iter().filter(|library| report.library(**library).is_some());
        engines.all(|library| other.library(*library).is_some_and(|part| part.identity.is_ok()))
    };
    let is_equal = || {
        let other = InstallationReport::read(graph_dir, &context.host);
        let is_same_release = |other: InstallationReport| {
            other.version == report.version && other.may_share_cuda(report) && has_engines(&other)
        };
        report.version.is_some() && other.is_some_and(is_same_release)
    };
    let kind = if problem.is_none() && is_equal() { OTHER_ON_PATH } else { kind_of_mix(&dependencies) };
    let same = if kind.code == OTHER_ON_PATH.code { " of the same release" } else { "" };
    let message = problem.unwrap_or_else(|| {
        let (dir, other) = (report.dir.printable(), graph_dir.printable());
        format!("NVIDIA's shim in {dir} would load another graph{same}: from {other}")
    });
    let absent = absent(&dependencies, report);
    let remedy = match &absent {
        Some((library, file)) => library.upgrade(file, report, context),
        None => separate(report, context, &dependencies.iter().filter_map(|one| one.file.clone()).collect::<Vec<_>>()),
    };
    Some(
        Finding::new(kind, message)
            .notes((kind.severity == Severity::Note).then_some(OLDER_SHIM))
            .note(format!("for programs that load {}", shim.path.printable()))
            .notes(foreign(&dependencies, report))
            .notes(absent.map(|(library, file)| library.reason(file)))
            .remedy(remedy),
    )
}

/// Returns the only library outside the installation, if ld.so finds it because this release lacks it.
fn absent<'a>(dependencies: &'a [Dependency], report: &InstallationReport) -> Option<(AbsentLibrary, &'a Path)> {
    let is_other = |file: &&Path| file.parent().is_some_and(|dir| !is_same(dir, &report.dir));
    let of_cudnn = dependencies.iter().filter(|one| cudnn_file::library(&one.name).is_some());
    let mut others = of_cudnn.filter_map(|one| Some((one, one.file.as_deref().filter(is_other)?)));
    let (other, file) = others.next().filter(|_| others.next().is_none())?;
    Some((AbsentLibrary::of(report.version?, &other.name)?, file))
}

/// Makes ld.so search the installation first. If the installation is incomplete or already first, also removes other
/// cuDNN directories from the search path. `found` are the files that ld.so finds now.
fn separate(report: &InstallationReport, context: &Context, found: &[PathBuf]) -> Remedy {
    if let Some(help) = without_preload(report, context).or_else(|| without_hwcaps(report, found)) {
        return help;
    }
    let library_path = context.host.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let dirs = split_search_path(&library_path).into_iter().map(PathBuf::from);
    let is_first = dirs.clone().next().is_some_and(|first| is_same(&first, &report.dir));
    if report.variant == Variant::Full && !is_first {
        return search_first(&report.dir);
    }
    let has_cudnn = |dir: &PathBuf| Library::ALL.iter().any(|library| dir.join(library.file_name()).target_exists());
    let dirs = dirs.filter_map(|dir| cudnn_probe::canonicalize(dir).ok());
    let others: Vec<PathBuf> = dirs.filter(|dir| !is_same(dir, &report.dir) && has_cudnn(dir)).collect();
    let Some(variable) = off_search_path(&others, &library_path) else { return search_first(&report.dir) };
    let remedy = Remedy::new("remove other cuDNN directories from the search path of ld.so:").action(variable);
    if is_first { remedy } else { remedy.search(&report.dir) }
}

/// Removes a cuDNN file from a subdirectory such as `glibc-hwcaps/x86-64-v3`, which ld.so prefers to the directory
/// itself on every search path. NVIDIA's packages contain no such file.
fn without_hwcaps(report: &InstallationReport, found: &[PathBuf]) -> Option<Remedy> {
    let is_below = |file: &&PathBuf| {
        let dir = file.parent().and_then(|dir| cudnn_probe::canonicalize(dir).ok());
        dir.is_some_and(|dir| dir != report.dir && dir.starts_with(report.dir.join("glibc-hwcaps")))
    };
    let file = found.iter().find(is_below)?;
    Some(remedies::remove(
        "remove this file, which ld.so prefers because its directory is specific to this processor:".into(),
        file,
    ))
}

/// Removes cuDNN files of other installations from LD_PRELOAD, which precedes all search paths.
fn without_preload(report: &InstallationReport, context: &Context) -> Option<Remedy> {
    const NAME: &str = "LD_PRELOAD";
    let value = context.host.variable(NAME)?;
    let is_other = |file: &Path| {
        let is_cudnn = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcudnn"));
        is_cudnn && file.parent().is_some_and(|dir| !is_same(dir, &report.dir)) && !cudnn_file::is_drop_in(file)
    };
    let (first, change) = without_entries(NAME, &value, is_other)?;
    let text = format!("{NAME} has ld.so load {} before all others: remove it:", first.printable());
    Some(Remedy::new(text).action(change))
}

/// C025: a sub-library loads libraries outside the installation if a program links to it or opens it without NVIDIA's
/// shim. ld.so searches LD_LIBRARY_PATH before the sub-library's run path.
fn linked(report: &InstallationReport, context: &Context) -> Option<Finding> {
    const LINKED: [Library; 3] = [Library::Ops, Library::Cnn, Library::Adv];
    let finding = |file: &Path, programs: String, remedy: &dyn Fn() -> Remedy| {
        let dependencies = dependencies(context.simulation(file).ok()?);
        Some(
            Finding::new(LINKED_MIX, mix_of_dirs(&dependencies)?)
                .note(format!("for programs that are linked to {programs}"))
                .note("programs that use this project's loader get one installation")
                .notes(foreign(&dependencies, report))
                .remedy(remedy()),
        )
    };
    let by_name = LINKED.into_iter().find_map(|library| {
        // The search path may contain a single library without an installation.
        let FoundLibrary { path: file, rule } = find(library.file_name(), context)?;
        let dir = file.parent().filter(|dir| !is_same(dir, &report.dir))?;
        let is_alone = !dir.join(Library::Graph.file_name()).target_exists();
        let remedy = || separate(report, context, std::slice::from_ref(&file));
        is_alone.then(|| finding(&file, format!("{library}, or open it by name: {rule}"), &remedy))?
    });
    let by_path = |library: Library| {
        let file = &report.library(library)?.path;
        finding(file, format!("{}, or open it themselves", file.printable()), &|| {
            let text = "unset LD_LIBRARY_PATH, or put the directory of one cuDNN first on it; to see every file:";
            let look = || Remedy::new(text).look(["explain".into(), file.clone().into_os_string()]);
            without_preload(report, context).unwrap_or_else(look)
        })
    };
    by_name.or_else(|| LINKED.into_iter().find_map(by_path))
}

/// Returns a mix that a different search path resolves. C014 and C015 report mixes within one directory.
fn mix_of_dirs(dependencies: &[Dependency]) -> Option<String> {
    let mut mixes = mixes(dependencies);
    // Mixes that fail come first.
    mixes.sort_by_key(|mix| mix.works);
    mixes.into_iter().find(|mix| !mix.is_in_one_dir).map(|mix| mix.message)
}

/// Returns an error, or a note if only a shim of an older release is mixed in.
fn kind_of_mix(dependencies: &[Dependency]) -> FindingKind {
    let mixes = mixes(dependencies);
    let works = !mixes.is_empty() && mixes.iter().all(|mix| mix.works);
    FindingKind { severity: if works { Severity::Note } else { LD_SO_MIX.severity }, ..LD_SO_MIX }
}

fn foreign(dependencies: &[Dependency], report: &InstallationReport) -> Vec<String> {
    let foreign = dependencies.iter().filter_map(|dependency| {
        let file = dependency.file.as_deref()?;
        let is_foreign = dependency.name.starts_with("libcudnn") && !is_same(file.parent()?, &report.dir);
        is_foreign.then(|| format!("{}: {}", file.printable(), dependency.rule))
    });
    foreign.collect()
}

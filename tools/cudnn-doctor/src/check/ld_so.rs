//! Checks which files ld.so finds when a program, a framework or cuDNN itself opens a library by name.

use cudnn_probe::facts::PathFacts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{InstallationReport, Variant};
use cudnn_probe::ld_so::{Resolution, Rule, Simulation};
use cudnn_probe::{DIR_VARIABLE, Library};

use super::finding::{
    Finding, FindingKind, LD_SO_MIX, LINKED_MIX, NO_CUBLAS, NO_NVRTC, NOT_ON_PATH, OTHER_ON_PATH, Severity,
};
use super::frameworks::Users;
use super::load_test::Unusable;
use super::plain_program::plain_program;
use super::remedies::{self, Companion};
use super::{foreign_library, installation, nvrtc};
use crate::context::Context;
use crate::cudnn_file;
use crate::dependencies::{Dependency, OLDER_SHIM, dependencies, mixes};
use crate::escape::Printable;
use crate::platform::is_too_many_open_files;
use crate::remedy::{Remedy, Variable, off_search_path};
use crate::shell::{split_list, split_search_path};

/// The CUDA majors that cuDNN 9 has been built for.
const CUDA_MAJORS: [u32; 3] = [11, 12, 13];

/// Runs all checks. `users` are the frameworks that load the installation.
pub(super) fn findings(report: &InstallationReport, context: &Context, users: &Users) -> Vec<Finding> {
    let mut findings: Vec<Finding> = by_name(report, context).into_iter().collect();
    findings.iter_mut().for_each(|finding| users.qualify(finding));
    // A second finding about another installation of the same release would be redundant.
    let is_other = findings.iter().any(|finding| finding.kind.code == OTHER_ON_PATH.code);
    let mixed = mixed(report, context).filter(|mixed| !is_other || mixed.kind.code != OTHER_ON_PATH.code);
    findings.extend(match (mixed, linked(report, context)) {
        (Some(mixed), Some(linked)) => {
            Some(mixed.note(format!("for programs linked to a sub-library: {}", linked.message)))
        }
        (mixed, linked) => mixed.or(linked),
    });
    findings.extend(companions(report, context, &users.cuda));
    findings
}

/// Checks which cuDNN a program without a run path gets when it loads the shim by name.
fn by_name(report: &InstallationReport, context: &Context) -> Option<Finding> {
    let shim = Library::Shim.file_name();
    let found = resolve(&mut plain_program(&context.host, &context.files)?, shim);
    let dir = report.dir.printable();
    // ld.so skips unreadable files and files for other processors, so a search path would not help.
    let own = report.library(Library::Shim).filter(|part| part.identity.is_ok());
    match found {
        None => {
            own?;
            Some(
                Finding::new(NOT_ON_PATH, format!("ld.so does not find {shim}: {dir} is not on a search path"))
                    .note("programs without a run path that load cuDNN by name fail")
                    .note(match context.starter_of(&report.dir) {
                        Some(tool) => format!("this project's loader finds it in programs that {tool} starts"),
                        None => "this project's loader finds it".to_owned(),
                    })
                    .remedy(search_first(&report.dir)),
            )
        }
        Some((path, rule)) if cudnn_file::is_drop_in(&path) => {
            let loaded = context.selected_by_drop_in(&path).filter(|loaded| !is_same(&loaded.dir, &report.dir))?;
            let (drop_in, other) = (path.printable(), loaded.dir.printable());
            let message = format!("the drop-in {drop_in} loads another cuDNN: {} in {other}", loaded.version);
            Some(
                Finding::new(OTHER_ON_PATH, message)
                    .note(format!("ld.so finds the drop-in by: {rule}"))
                    .note(format!("the drop-in uses {other}: {}", loaded.origin))
                    .note(format!("this project's loader uses the cuDNN in {dir} in other programs"))
                    .remedy(
                        Remedy::new("to choose one for all of them, set this variable to its directory:")
                            .set(DIR_VARIABLE, &report.dir),
                    ),
            )
        }
        Some((path, rule)) if own.is_none() && !is_same(path.parent().unwrap_or(&path), &report.dir) => {
            let mix = context.simulation(&path).ok().map(dependencies);
            let mix = mix.and_then(|dependencies| mix_of_dirs(&dependencies)).unwrap_or_else(|| {
                format!("ld.so finds {} for the libraries in {dir}, which lack a usable one", path.printable())
            });
            Some(
                Finding::new(LD_SO_MIX, mix)
                    .note(match report.library(Library::Shim) {
                        None => format!("{shim} is missing in {dir}"),
                        Some(_) => format!("{shim} in {dir} is unusable"),
                    })
                    .note(format!("programs that load it by name get {} ({rule})", path.printable()))
                    .remedy(remedies::with_shim(report)),
            )
        }
        Some((path, rule)) if path.parent().is_some_and(|found| !is_same(found, &report.dir)) => Some(
            other_on_path(&path, context)
                .note(format!("found by: {rule}"))
                .note(format!("this project's loader uses the cuDNN in {dir}"))
                .remedy(separate(report, context, &[path])),
        ),
        Some(_) => None,
    }
}

/// Returns the drop-in found by programs that load the shim by name, if it uses this installation.
pub(super) fn drop_in_before(report: &InstallationReport, context: &Context) -> Option<PathBuf> {
    let (path, _) = resolve(&mut plain_program(&context.host, &context.files)?, Library::Shim.file_name())?;
    if !cudnn_file::is_drop_in(&path) {
        return None;
    }
    let loaded = context.selected_by_drop_in(&path)?;
    is_same(&loaded.dir, &report.dir).then_some(path)
}

/// Reports a shim outside the installation. It may still open libraries of the installation, which mixes two releases.
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

/// Reports problems of the cuDNN found by programs that load the shim by name, if it differs from this installation.
pub(super) fn of_linked_programs(report: &InstallationReport, context: &Context) -> Vec<Finding> {
    let found = plain_program(&context.host, &context.files);
    let found = found.and_then(|mut program| resolve(&mut program, Library::Shim.file_name()));
    let Some((shim, _)) = found else { return Vec::new() };
    let is_drop_in = cudnn_file::is_drop_in(&shim);
    let dir = if is_drop_in {
        context.selected_by_drop_in(&shim).map(|loaded| loaded.dir)
    } else {
        shim.parent().map(Path::to_owned)
    };
    let other = dir.filter(|dir| !is_same(dir, &report.dir));
    let other = other.and_then(|dir| InstallationReport::read(&dir, &context.host));
    let Some(other) = other.filter(|other| other.major == 9) else { return Vec::new() };
    // Replacing the files would also remove a drop-in in the same directory.
    let add_help = |finding: Finding| if is_drop_in { finding.remedy(point_drop_in_to(&report.dir)) } else { finding };
    installation::of_other_programs(&other).into_iter().map(add_help).collect()
}

/// Makes the drop-in load this installation.
fn point_drop_in_to(dir: &Path) -> Remedy {
    Remedy::new("move the drop-in to a directory without other cuDNN files, or point it to the installation:")
        .set(DIR_VARIABLE, dir)
}

/// Makes ld.so search a directory first.
fn search_first(dir: &Path) -> Remedy {
    Remedy::new("have ld.so search that directory first:").search(dir)
}

/// Checks that NVIDIA's shim opens the libraries of the same installation, and that graph opens the engines there.
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
            other.version == report.version && other.cuda_major == report.cuda_major && has_engines(&other)
        };
        report.version.is_some() && other.is_some_and(is_same_release)
    };
    let kind = if problem.is_none() && is_equal() { OTHER_ON_PATH } else { kind_of_mix(&dependencies) };
    let same = if kind.code == OTHER_ON_PATH.code { " of the same release" } else { "" };
    let message = problem.unwrap_or_else(|| {
        let (dir, other) = (report.dir.printable(), graph_dir.printable());
        format!("NVIDIA's shim in {dir} would load another graph{same}: from {other}")
    });
    Some(
        Finding::new(kind, message)
            .notes((kind.severity == Severity::Note).then_some(OLDER_SHIM))
            .note(format!("for programs that load {}", shim.path.printable()))
            .notes(foreign(&dependencies, report))
            .remedy(separate(
                report,
                context,
                &dependencies.into_iter().filter_map(|one| one.file).collect::<Vec<_>>(),
            )),
    )
}

/// Makes ld.so search the directory of the installation first. Removes other cuDNN directories from the search path if
/// ld.so would still reach them, because the installation is incomplete or already comes first. `found` are the files
/// that ld.so finds now.
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

/// Removes a cuDNN file from a processor-specific subdirectory such as `glibc-hwcaps/x86-64-v3`, which ld.so prefers to
/// the directory itself. No search path avoids such a file, and NVIDIA's packages contain none.
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

/// Removes files of other installations from LD_PRELOAD, because preloaded libraries take precedence over all search
/// paths.
fn without_preload(report: &InstallationReport, context: &Context) -> Option<Remedy> {
    const NAME: &str = "LD_PRELOAD";
    let value = context.host.variable(NAME)?;
    let is_other = |entry: &OsString| {
        let file = Path::new(entry);
        let is_cudnn = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcudnn"));
        is_cudnn && file.parent().is_some_and(|dir| !is_same(dir, &report.dir)) && !cudnn_file::is_drop_in(file)
    };
    let entries: Vec<OsString> = split_list(NAME, &value).into_iter().filter(is_other).collect();
    let first = Path::new(entries.first()?).printable();
    let text = format!("{NAME} has ld.so load {first} before all others: remove it:");
    Some(Remedy::new(text).action(Variable::Without { name: NAME, entries }))
}

/// C025: checks that a sub-library finds the libraries of its own installation if a program links to it or opens it
/// without NVIDIA's shim. ld.so searches LD_LIBRARY_PATH before the sub-library's run path.
fn linked(report: &InstallationReport, context: &Context) -> Option<Finding> {
    const LINKED: [Library; 3] = [Library::Ops, Library::Cnn, Library::Adv];
    let by_name = LINKED.into_iter().find_map(|library| {
        // A single library in a directory on the search path.
        let (file, rule) = resolve(&mut plain_program(&context.host, &context.files)?, library.file_name())?;
        let dir = file.parent().filter(|dir| !is_same(dir, &report.dir))?;
        let is_alone = !dir.join(Library::Graph.file_name()).target_exists();
        let dependencies = dependencies(context.simulation(&file).ok().filter(|_| is_alone)?);
        Some(
            Finding::new(LINKED_MIX, mix_of_dirs(&dependencies)?)
                .note(format!("for programs that are linked to {library}, or open it by name: {rule}"))
                .note("programs that use this project's loader get one installation")
                .notes(foreign(&dependencies, report))
                .remedy(separate(report, context, &[file])),
        )
    });
    let by_path = || {
        LINKED.into_iter().find_map(|library| {
            let file = &report.library(library)?.path;
            let dependencies = dependencies(context.simulation(file).ok()?);
            Some(
                Finding::new(LINKED_MIX, mix_of_dirs(&dependencies)?)
                    .note(format!("for programs that are linked to {}, or open it themselves", file.printable()))
                    .note("programs that use this project's loader get one installation")
                    .notes(foreign(&dependencies, report))
                    .remedy(without_preload(report, context).unwrap_or_else(|| {
                        Remedy::new(
                            "unset LD_LIBRARY_PATH, or put the directory of one cuDNN first on it; to see every file:",
                        )
                        .look(["explain".into(), file.clone().into_os_string()])
                    })),
            )
        })
    };
    by_name.or_else(by_path)
}

/// Returns a mix that a different search path can resolve. Mixes within one directory are reported by the checks of the
/// installation (C014, C015).
fn mix_of_dirs(dependencies: &[Dependency]) -> Option<String> {
    let mut mixes = mixes(dependencies);
    // Report mixes that fail before those that work.
    mixes.sort_by_key(|mix| mix.works);
    mixes.into_iter().find(|mix| !mix.is_in_one_dir).map(|mix| mix.message)
}

/// Returns an error, or a note if only a shim of an older release is mixed in.
fn kind_of_mix(dependencies: &[Dependency]) -> FindingKind {
    let mixes = mixes(dependencies);
    let works = !mixes.is_empty() && mixes.iter().all(|mix| mix.works);
    FindingKind { severity: if works { Severity::Note } else { LD_SO_MIX.severity }, ..LD_SO_MIX }
}

/// Returns the cuDNN files that ld.so finds in other directories, each with the rule that found it.
fn foreign(dependencies: &[Dependency], report: &InstallationReport) -> Vec<String> {
    let foreign = dependencies.iter().filter_map(|dependency| {
        let file = dependency.file.as_deref()?;
        let is_foreign = dependency.name.starts_with("libcudnn") && !is_same(file.parent()?, &report.dir);
        is_foreign.then(|| format!("{}: {}", file.printable(), dependency.rule))
    });
    foreign.collect()
}

/// The CUDA libraries that cuDNN opens by name on demand: the library that opens them, the kind of finding, and the
/// name without the major.
const COMPANIONS: [(Library, FindingKind, &str); 2] =
    [(Library::EnginesPrecompiled, NO_CUBLAS, "libcublasLt"), (Library::EnginesRuntimeCompiled, NO_NVRTC, "libnvrtc")];

/// Returns whether cuDNN would open a CUDA library that is damaged or has missing dependencies. Opening one may end the
/// process.
pub(super) fn has_damaged_companion(report: &InstallationReport, context: &Context) -> bool {
    COMPANIONS.iter().any(|(opener, _, stem)| {
        let (Some(part), Some(major)) = (report.library(*opener), report.cuda_major) else { return false };
        let simulation = context.simulation(&part.path);
        simulation.is_ok_and(|mut simulation| damage(&mut simulation, &format!("{stem}.so.{major}")).is_some())
    })
}

/// Returns the complete, undamaged CUDA libraries that ld.so finds for this cuDNN.
pub(super) fn companion_files(report: &InstallationReport, context: &Context) -> Vec<PathBuf> {
    let find = |(opener, _, stem): &(Library, FindingKind, &str)| {
        let (part, major) = (report.library(*opener)?, report.cuda_major?);
        let mut simulation = context.simulation(&part.path).ok()?;
        let name = format!("{stem}.so.{major}");
        let is_loaded = simulation.dlopen(&name, 0);
        let object = simulation.objects().get(simulation.loaded(&name).filter(|_| is_loaded)?)?;
        Some(object.path.clone())
    };
    COMPANIONS.iter().filter_map(find).collect()
}

/// Returns the finding for a CUDA library that ld.so finds for this cuDNN but cannot load.
pub(super) fn unusable_companion(
    report: &InstallationReport,
    context: &Context,
    unusable: &Unusable,
) -> Option<Finding> {
    let Unusable { file, reason } = unusable;
    let cuda_major = report.cuda_major?;
    let found = file.file_name()?.to_string_lossy();
    let (opener, kind, stem) = COMPANIONS.into_iter().find(|(_, _, stem)| found.starts_with(stem))?;
    let name = format!("{stem}.so.{cuda_major}");
    let finding =
        Finding::new(kind, format!("{} {reason}", file.printable())).note(format!("{opener} opens {name} when needed"));
    if crate::rights::is_noexec(file) {
        let help = "its file system is mounted noexec, so that no program can load a library from there: mount it with \
                    exec, or install the library on another file system";
        return Some(finding.remedy(help));
    }
    let opener = report.library(opener)?;
    let remedy = Companion { name: &name, cuda_major, opener, incomplete: Some(file) }.help(report, context);
    let text = format!("replace it (if the damaged file stays, the new one must come first): {}", remedy.text);
    Some(finding.remedy(remedy.with_text(text)))
}

/// A damaged file that ld.so would find.
struct Damage {
    /// The name that leads to the file.
    name: String,
    path: PathBuf,
    rule: Rule,
    error: String,
}

/// Returns the damaged file that ld.so would find for a library that the simulated one opens, or for one of its
/// dependencies.
fn damage(simulation: &mut Simulation, name: &str) -> Option<Damage> {
    let before = simulation.lookups().len();
    simulation.dlopen(name, 0);
    simulation.lookups().iter().skip(before).find_map(|lookup| match &lookup.resolution {
        Resolution::Unusable { path, error, rule } if !is_too_many_open_files(error) => {
            Some(Damage { name: lookup.name.clone(), path: path.clone(), rule: rule.clone(), error: error.to_string() })
        }
        _ => None,
    })
}

/// Returns the file that ld.so would find for a library that the simulated one opens, and its first dependency that
/// ld.so cannot find.
fn lacking(simulation: &mut Simulation, name: &str) -> Option<(PathBuf, String)> {
    let before = simulation.lookups().len();
    simulation.dlopen(name, 0);
    let mut lookups = simulation.lookups().iter().skip(before);
    let Resolution::Found { path, .. } = &lookups.next()?.resolution else { return None };
    let missing = lookups.find(|lookup| matches!(lookup.resolution, Resolution::Missing))?;
    Some((path.clone(), missing.name.printable()))
}

/// Checks the CUDA libraries that this cuDNN opens, in a program that has already loaded the libraries named in
/// `loaded`.
pub(super) fn companions(report: &InstallationReport, context: &Context, loaded: &[String]) -> Vec<Finding> {
    let Some(major) = report.cuda_major else { return Vec::new() };
    let mut findings = Vec::new();
    for (opener, kind, stem) in COMPANIONS {
        let Some(part) = report.library(opener) else { continue };
        let Ok(mut simulation) = context.simulation(&part.path) else { continue };
        let name = format!("{stem}.so.{major}");
        if loaded.contains(&name) {
            continue;
        }
        let companion = Companion { name: &name, cuda_major: major, opener: part, incomplete: None };
        if let Some(damage) = damage(&mut simulation, &name) {
            let (path, error) = (&damage.path, &damage.error);
            if damage.name != name {
                let message = format!(
                    "{name} cannot be loaded: {}, which it needs, is damaged: {} {error}",
                    damage.name,
                    path.printable()
                );
                let finding = Finding::new(kind, message).note(format!("{opener} opens {name} when needed"));
                findings.push(finding.remedy(foreign_library::replace(path, &damage.rule)));
                continue;
            }
            let help = Companion { incomplete: Some(path), ..companion }.help(report, context);
            let text = format!("replace it (if the damaged file stays, the new one must come first): {}", help.text);
            findings.push(
                Finding::new(kind, format!("{name} is damaged: {} {error}", path.printable()))
                    .note(format!("{opener} opens it when needed"))
                    .remedy(help.with_text(text)),
            );
            continue;
        }
        if let Some((path, lacking)) = lacking(&mut simulation, &name) {
            let help = Companion { incomplete: Some(&path), ..companion }.help(report, context);
            let text = format!("install the package that contains {lacking}, or replace {name}: {}", help.text);
            let message =
                format!("{name} cannot be loaded: {lacking}, which {} needs, was not found", path.printable());
            let finding = Finding::new(kind, message).note(format!("{opener} opens {name} when needed"));
            findings.push(finding.remedy(help.with_text(text)));
            continue;
        }
        if let Some((path, _)) = resolve(&mut simulation, &name) {
            if opener == Library::EnginesRuntimeCompiled {
                let finding = nvrtc::builtins(&name, &path, major, simulation);
                let companion = Companion { incomplete: Some(&path), ..companion };
                findings.extend(finding.map(|finding| finding.remedy(companion.help(report, context))));
            }
            continue;
        }
        // Libraries for a different CUDA major are unusable, but often explain the problem.
        let others = CUDA_MAJORS.into_iter().filter(|other| *other != major);
        let others: Vec<String> = others
            .filter_map(|other| resolve(&mut simulation, &format!("{stem}.so.{other}")))
            .map(|(path, _)| format!("found for a different CUDA major: {}", path.printable()))
            .collect();
        findings.push(
            Finding::new(kind, format!("{name} was not found; {opener} opens it when needed"))
                .note(format!("this cuDNN is built for CUDA {major}"))
                .notes(others)
                .remedy(companion.help(report, context)),
        );
    }
    findings
}

/// Returns the file that ld.so finds when the simulated program or library opens this name, and the rule.
fn resolve(simulation: &mut Simulation, name: &str) -> Option<(PathBuf, String)> {
    let before = simulation.lookups().len();
    simulation.dlopen(name, 0);
    match &simulation.lookups().get(before)?.resolution {
        Resolution::Found { path, rule } | Resolution::Unusable { path, rule, .. } => {
            Some((path.clone(), rule.to_string()))
        }
        _ => None,
    }
}

pub(super) fn is_same(a: &Path, b: &Path) -> bool {
    match (cudnn_probe::canonicalize(a), cudnn_probe::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

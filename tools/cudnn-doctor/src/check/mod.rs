//! The diagnosis of a machine: can it run programs that use cuDNN, and if not, why? Files are read first; cuDNN is
//! loaded last, in a child process. Nothing is printed here.

mod culprit;
mod demand;
mod dlls;
mod drop_in;
mod environment;
pub(crate) mod finding;
pub(crate) mod fix_commands;
pub(crate) mod frameworks;
pub(crate) mod installation;
mod installers;
pub(crate) mod kernels;
mod ld_so;
mod limits;
pub(crate) mod load_test;
pub(crate) mod machine;
mod nvml;
mod nvrtc;
mod nvrtc_builtins;
mod older;
mod place;
mod plain_program;
mod program;
mod requirements;
pub(crate) mod suitable;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cudnn_frameworks::Depth;
use cudnn_loader::Function;
use cudnn_probe::packages::{Installer, Package, python_problem, site_packages};
use cudnn_probe::{
    Candidate, DIR_VARIABLE, Installation, InstallationReport, Installed, Library, Origin, Os, ProbeError,
    RejectedCandidate, Requirements, Version, check_dir, deleted_packages, deleted_system_packages, identify_any,
    is_link_to_itself,
};

use crate::context::Context;
use crate::escape::Printable;
use crate::framework_run::{self, Framework, Run};
use crate::python;
use crate::python_shim::PythonShim;
use crate::shell::{SEARCH_PATH, command_for_environment, doctor, link_to, removal_of, set_variable, unset_variable};
use crate::subprocess::Patience;
use finding::{
    DRIVER_CRASHED, Effect, FRAMEWORK_OLD_CUDNN, LACKS_FUNCTION, LOST_PYTHON, NO_BUILTINS, NO_CUBLAS, NO_CUDNN,
    NO_DRIVER, NO_KERNELS, NO_NVRTC, OLD_GPU, OVERLAPPING_PACKAGES, REJECTED, RELATIVE_PATH, REQUIREMENT, SEVERAL,
};
use frameworks::{Judged, Unneeded, Users};
use machine::Machine;
use program::Examined;

pub(crate) use finding::{FINDINGS, Finding, FindingKind, Help, Severity};

/// The checks that were requested, besides those of the machine itself.
pub(crate) struct Requested {
    /// The oldest cuDNN that the program can use.
    pub(crate) minimum: Option<Version>,
    /// The CUDA major that the program is built for.
    pub(crate) cuda_major: Option<u32>,
    /// The functions that the program calls.
    pub(crate) functions: Vec<Function>,
    /// Load cuDNN in a child process.
    pub(crate) load: bool,
    /// Run a convolution there.
    pub(crate) convolution: bool,
    /// Hash the libraries.
    pub(crate) verify: bool,
    /// A program that must find what it needs.
    pub(crate) program: Option<PathBuf>,
    /// Run these frameworks.
    pub(crate) frameworks: Vec<Framework>,
}

impl Requested {
    /// Whether nothing states that a program uses cuDNN.
    fn is_about_machine(&self) -> bool {
        let Requested { minimum, cuda_major, functions, convolution, verify, program, .. } = self;
        let has_requirement = minimum.is_some() || cuda_major.is_some() || !functions.is_empty();
        !has_requirement && !convolution && !verify && program.is_none()
    }
}

/// The result of the check.
pub(crate) struct Diagnosis {
    pub(crate) machine: Machine,
    /// The virtual environment of the working directory, if no environment is active.
    pub(crate) inactive: Option<PathBuf>,
    /// The installation that the loader would use, or the requested program.
    pub(crate) report: Option<InstallationReport>,
    /// How the requested program finds it.
    pub(crate) program: Option<String>,
    /// The output of the convolution, line by line.
    pub(crate) convolution: Vec<String>,
    /// The runs of the requested frameworks.
    pub(crate) runs: Vec<Run>,
    /// With `verify`: the names of the libraries whose sha256 was compared with a record.
    pub(crate) verified: Option<Vec<&'static str>>,
    /// The most severe first.
    pub(crate) findings: Vec<Finding>,
}

pub(crate) fn diagnose(context: &Context, requested: &Requested, patience: &Patience) -> Diagnosis {
    let mut machine = Machine::detect(&context.host, patience);
    let Examined { findings: of_program, dir, how, loaded, called } =
        requested.program.as_deref().map(|program| program::examine(program, context)).unwrap_or_default();
    let mut findings: Vec<Finding> = relative_path().into_iter().collect();
    findings.extend(of_program);
    // What a program finds is what it uses, whatever else is here.
    let of_program = dir.as_deref().and_then(|dir| installed_in(dir, context));
    let program = how.filter(|_| of_program.is_some());
    let used = of_program.or_else(|| {
        let (selected, about_selection) = select(context, &machine);
        findings.extend(about_selection);
        selected
    });
    let judged = if program.is_none() { active_frameworks(context, &machine) } else { None };
    let (mut convolution, mut verified) = (Vec::new(), requested.verify.then(Vec::new));
    if let Some((installation, report)) = &used {
        let called = requested.program.as_deref().filter(|_| program.is_some()).map(|name| (name, called.as_slice()));
        let mut of_used = requirements::findings(requested, called, context, installation, report, &machine.gpus);
        of_used.extend(installation::findings(report, &machine, context, requested.verify));
        of_used.extend(drop_in::finding(report, context));
        match (program.is_some(), Os::HOST) {
            (true, Os::Windows) => of_used.extend(dlls::companions(report, context, &loaded)),
            (false, Os::Windows) => {
                of_used.extend(dlls::findings(report, context));
                findings.extend(dlls::of_linked_programs(report, context));
            }
            (true, _) => {
                of_used.extend(ld_so::companions(report, context, &loaded));
                of_used.extend(program::other_cuda(&loaded, report));
            }
            (false, _) => {
                let users = judged.as_ref().map(|judged| Users::of(&judged.survey, report)).unwrap_or_default();
                of_used.extend(ld_so::findings(report, context, &users));
                findings.extend(ld_so::of_linked_programs(report, context));
            }
        }
        if requested.load {
            // The registration takes some 400 ms with a full cuDNN, and shows a library of another release.
            let may_be_mixed = requested.verify || !installation::is_one_wheel(report);
            let parts = load_test::Parts {
                convolution: requested.convolution,
                driver: machine.has_driver_library(),
                engines: may_be_mixed && !ld_so::has_damaged_companion(report, context),
                cuda: ld_so::companion_files(report, context),
            };
            let loaded = load_test::load(report, &parts, patience);
            of_used.extend(loaded.findings);
            let unusable = loaded.unusable_cuda.iter();
            of_used.extend(unusable.filter_map(|unusable| ld_so::unusable_companion(report, context, unusable)));
            convolution = loaded.convolution;
            machine.set_cuda(loaded.cuda);
        }
        of_used.extend(installation::old_driver(report, &machine, context));
        agree(&mut of_used);
        if program.is_some() {
            of_used.iter_mut().for_each(|finding| program::keep_environment(finding, report));
        }
        findings.extend(of_used);
        if let Some(verified) = &mut verified {
            let (compared, _) = installation::verifiable(report);
            verified.extend(compared.iter().map(|part| part.library.name_on(report.os)));
        }
    }
    // The load test may have asked the driver itself, or may have failed as its query did.
    let is_of_driver = |finding: &Finding| [NO_DRIVER.code, DRIVER_CRASHED.code].contains(&finding.kind.code);
    if !findings.iter().any(|finding| is_of_driver(finding) || finding.is_of_doctor()) {
        findings.extend(machine.findings());
    }
    if let Some(finding) = older::of_another_major(requested, context) {
        // No cuDNN 9 would help.
        findings.retain(|finding| finding.kind.code != NO_CUDNN.code);
        findings.push(finding);
    }
    findings.extend(environment::findings());
    findings.extend(python_of_environment(context));
    if let Some(judged) = judged {
        if used.is_none() && requested.is_about_machine() && !is_cudnn_wanted(context, &findings) {
            let unneeded = Unneeded::of(&judged.survey);
            unneeded.iter().for_each(|unneeded| findings.iter_mut().for_each(|finding| unneeded.qualify(finding)));
        }
        findings.extend(judged.findings);
        agree_with_frameworks(&mut findings);
    }
    let run = |framework: &Framework| framework_run::run(*framework, context, &machine, patience);
    let runs: Vec<Run> = requested.frameworks.iter().map(run).collect();
    findings.extend(runs.iter().filter_map(|run| run.finding.clone()));
    findings.iter_mut().filter_map(|finding| finding.help.as_mut()).for_each(|help| {
        fix_commands::leave_named_dir(help, context);
    });
    findings.sort_by(|a, b| b.kind.severity.cmp(&a.kind.severity).then(a.kind.code.cmp(b.kind.code)));
    let report = used.map(|(_, report)| report);
    let inactive = context.inactive_environment().filter(|_| requested.program.is_none());
    Diagnosis { machine, inactive, report, program, convolution, runs, verified, findings }
}

/// An installation that can be used, and the report on it.
type Used = (Installation, InstallationReport);

/// The installation that the loader would use, and the findings about all that the search finds.
fn select(context: &Context, machine: &Machine) -> (Option<Used>, Vec<Finding>) {
    let selection = context.select(&Requirements::default());
    let mut findings = rejected(context, &selection.rejected);
    findings.extend(deleted(context));
    let used = selection.installation.and_then(|selected| {
        let mut others = context.inventory();
        let report = take_report(&mut others, &selected.dir, context)?;
        findings.extend(several(&others, &report));
        Some((selected, report))
    });
    if used.is_none() {
        let none = none(context, machine, &selection.rejected, &findings);
        findings.push(none);
    }
    (used, findings)
}

/// The installation in this directory.
fn installed_in(dir: &Path, context: &Context) -> Option<Used> {
    let installation = check_dir(&Candidate::new(dir, Origin::Explicit), &Requirements::default()).ok()?;
    let report = InstallationReport::read(&installation.dir, &context.host)?;
    Some((installation, report))
}

/// One help at most replaces the installation. All others that would change it, or what is beside it, give way: they
/// could name another package or another CUDA major.
fn agree(findings: &mut [Finding]) {
    let replacing = |finding: &&Finding| {
        let kinds = [REQUIREMENT, LACKS_FUNCTION, OLD_GPU, NO_KERNELS, OVERLAPPING_PACKAGES];
        let is_kind = kinds.iter().any(|kind| kind.code == finding.kind.code);
        is_kind && finding.help.as_ref().is_some_and(|help| help.effect != Effect::Other)
    };
    let Some(first) = findings.iter().find(replacing).cloned() else { return };
    let is_elsewhere = first.help.as_ref().is_some_and(|help| help.effect == Effect::OtherDir);
    for finding in findings.iter_mut().filter(|finding| finding.help != first.help) {
        let of_cuda = is_about_cuda(finding);
        let contradicts =
            |help: &Help| help.effect != Effect::Other || of_cuda || is_elsewhere && !help.commands.is_empty();
        if finding.help.as_ref().is_some_and(contradicts) {
            finding.help = Some(follow(&first));
        }
    }
}

/// A command that replaces the cuDNN of a framework by one for another CUDA comes before those that install the libraries
/// of CUDA which the one that is there needs.
fn agree_with_frameworks(findings: &mut [Finding]) {
    let is_removal = |help: &Help| help.commands.iter().any(|line| line.contains(" uninstall "));
    let is_first = |finding: &&Finding| {
        finding.kind.code == FRAMEWORK_OLD_CUDNN.code && finding.help.as_ref().is_some_and(is_removal)
    };
    let Some(first) = findings.iter().find(is_first).cloned() else { return };
    for finding in findings.iter_mut().filter(|finding| is_about_cuda(finding)) {
        finding.help = Some(follow(&first));
    }
}

fn is_about_cuda(finding: &Finding) -> bool {
    [NO_CUBLAS, NO_NVRTC, NO_BUILTINS].iter().any(|kind| kind.code == finding.kind.code)
}

fn follow(first: &Finding) -> Help {
    Help::new(format!(
        "follow the help of {} first, which replaces this installation; then run `{} check` again",
        first.kind.code,
        doctor()
    ))
}

/// ld.so searches these in the working directory of each program, and the search ignores them.
fn relative_path() -> Option<Finding> {
    let path = std::env::var_os(SEARCH_PATH)?;
    if Os::HOST == Os::Windows {
        return dlls::relative_path(&path);
    }
    if let Some(finding) = split_dir(&path) {
        return Some(finding);
    }
    let path = path.to_string_lossy().into_owned();
    // ld.so ignores an empty variable, but not an empty element of one.
    let is_relative = |dir: &&str| !path.is_empty() && !dir.starts_with(['/', '$']);
    let describe = |dir: &'_ str| if dir.is_empty() { "an empty element".to_owned() } else { dir.to_owned() };
    let mut relative: Vec<String> = path.split([':', ';']).filter(is_relative).map(describe).collect();
    relative.dedup();
    let dirs = relative.join(", ");
    let what = match relative.len() {
        0 => return None,
        1 => format!("LD_LIBRARY_PATH contains a relative directory: {dirs}"),
        _ => format!("LD_LIBRARY_PATH contains relative directories: {dirs}"),
    };
    Some(
        Finding::new(RELATIVE_PATH, what)
            .note("ld.so searches it below the working directory of each program; this project's search ignores it")
            .help("write the full path of the directory, and no colon before the first or after the last one"),
    )
}

/// A directory on LD_LIBRARY_PATH whose name has a separator: ld.so takes its parts for two directories.
fn split_dir(path: &OsStr) -> Option<Finding> {
    let path = path.to_str()?;
    let ends = || path.match_indices([':', ';']).map(|(at, _)| at).chain([path.len()]);
    let starts = || std::iter::once(0).chain(ends().map(|at| at + 1));
    let parts = starts().zip(ends().skip(1)).filter_map(|(start, end)| Some((start, end, path.get(start..end)?)));
    let is_dir = |dir: &str| dir.starts_with('/') && Path::new(dir).is_dir();
    let (start, end, dir) = { parts }.find(|(_, _, dir)| is_dir(dir) && !dir.split([':', ';']).all(is_dir))?;
    let message = format!("LD_LIBRARY_PATH contains {dir}, which ld.so takes for two directories");
    let finding =
        Finding::new(RELATIVE_PATH, message).note("a colon or a semicolon separates directories there, always");
    Some(match link_to(Path::new(dir)) {
        Some(link) => {
            let (before, after) = (path.get(..start)?, path.get(end..)?);
            let value = format!("{before}{}{after}", link.name.to_str()?);
            let line = format!("{} && {}", link.command, set_variable(SEARCH_PATH, value));
            finding.help(Help::new("name it:").command(line))
        }
        None => finding
            .help("make a symbolic link to it, without a colon or semicolon in its name, and name the link there"),
    })
}

/// The active virtual environment has packages that its Python does not import.
fn python_of_environment(context: &Context) -> Option<Finding> {
    let environments = context.search.environments();
    let mut roots = environments.iter().filter_map(|origin| match origin {
        Origin::VirtualEnvironment(root) => Some(root),
        _ => None,
    });
    let root = roots.find(|root| python_problem(root).is_some())?;
    let has_cudnn = |dir: PathBuf| dir.join("nvidia").is_dir();
    if !site_packages(root).any(has_cudnn) {
        return None;
    }
    let (what, help) = fix_commands::restore_python(root)?;
    let note = "programs that are started by this Python do not import the packages of the environment";
    Some(Finding::new(LOST_PYTHON, what).note(note).help(help))
}

/// The frameworks of the environment whose Python a program would use.
fn active_frameworks(context: &Context, machine: &Machine) -> Option<Judged> {
    // Kernels matter to a GPU that is here.
    let depth = Depth { kernels: !machine.gpus.is_empty(), unlisted: false, metadata: true };
    let environment = frameworks::active(context)?;
    Some(frameworks::judge(&environment, machine, &context.host, depth))
}

/// Whether somebody has put a cuDNN here that cannot be used, or names one.
fn is_cudnn_wanted(context: &Context, findings: &[Finding]) -> bool {
    let is_rejection = |finding: &Finding| finding.kind.code == REJECTED.code;
    context.search.explicit_candidate().is_some() || findings.iter().any(is_rejection)
}

/// One finding for each directory with an unusable cuDNN 9. A directory that was found under two names counts once.
fn rejected(context: &Context, rejected: &[RejectedCandidate]) -> Vec<Finding> {
    let mut seen: Vec<(PathBuf, Finding)> = Vec::new();
    for one in rejected {
        let RejectedCandidate { candidate, error, .. } = one;
        let denied = fix_commands::denied_dir(one);
        let dir = denied.as_ref().unwrap_or(&candidate.dir);
        let dir = cudnn_probe::canonicalize(dir).unwrap_or_else(|_| dir.clone());
        if matches!(error, ProbeError::OtherMajor { .. }) {
            continue;
        }
        let origin = format!("found: {}", candidate.origin);
        if let Some((_, finding)) = seen.iter_mut().find(|(other, _)| *other == dir) {
            if !finding.notes.contains(&origin.as_str().printable()) {
                *finding = finding.clone().note(origin);
            }
            continue;
        }
        // Most of these directories contain no cuDNN.
        if error.help().is_none() {
            continue;
        }
        let report = InstallationReport::read(&dir, &context.host);
        let links = match error {
            ProbeError::SonameLinkMissing { file } => fix_commands::links_like(&dir, file),
            _ => None,
        };
        let permit = denied.as_deref().and_then(|dir| fix_commands::permit(dir, &candidate.origin));
        let Some(help) = links.or(permit).or_else(|| fix_commands::repair(error, report.as_ref())) else { continue };
        // `identify_any` also tells a 32-bit library from one for another processor.
        let exact = identify_any(&one.path(), Library::Graph).err().filter(|_| is_about_architecture(error));
        // A file that can be seen is the one that cannot be read.
        let path = denied.filter(|_| one.path().symlink_metadata().is_err()).unwrap_or_else(|| one.path());
        let message = format!("{} {}", path.printable(), exact.as_ref().unwrap_or(error));
        let finding = Finding::new(REJECTED, message).note(origin).help(help);
        seen.push((dir, finding));
    }
    seen.into_iter().map(|(_, finding)| finding).collect()
}

fn is_about_architecture(error: &ProbeError) -> bool {
    matches!(error, ProbeError::WrongArchitecture { .. })
}

/// One finding for each environment, and for the system, with packages of cuDNN that their installer regards as installed,
/// and whose files are deleted.
fn deleted(context: &Context) -> Vec<Finding> {
    let environments = context.search.environments();
    let mut roots: Vec<&Path> = environments.iter().filter_map(Origin::root).collect();
    roots.dedup();
    let of_roots = roots.into_iter().flat_map(|root| {
        let (wheels, others): (Vec<Package>, Vec<Package>) =
            deleted_packages(root).into_iter().partition(|package| package.installer == Installer::Pip);
        [wheels, others]
    });
    let finding = |packages: Vec<Package>| {
        let first = packages.first()?;
        let names: Vec<String> = packages.iter().map(ToString::to_string).collect();
        let (graph, names) = (Library::Graph, names.join(" and "));
        let message = format!("{graph}, and maybe other files, of {names} in {} is deleted", first.root.printable());
        let finding = Finding::new(REJECTED, message).note(format!("{} regards them as installed", first.installer));
        let help = fix_commands::restore(&packages)?;
        let Some(link) = link_to_itself(&first.root) else { return Some(finding.help(help)) };
        let note =
            format!("{} is a symbolic link that leads to itself: no program finds a file below it", link.printable());
        let commands = [removal_of(&link)].into_iter().chain(help.commands).collect();
        Some(finding.note(note).help(Help { commands, ..help }))
    };
    of_roots.chain([deleted_system_packages(&context.host)]).filter_map(finding).collect()
}

/// A link that leads to itself in place of a directory of NVIDIA's wheels. No installer replaces it.
fn link_to_itself(root: &Path) -> Option<PathBuf> {
    const DIRS: [&str; 3] = ["nvidia", "nvidia/cudnn", "nvidia/cudnn/lib"];
    let dirs = site_packages(root).flat_map(|site| DIRS.map(|dir| site.join(dir)));
    { dirs }.find(|dir| is_link_to_itself(dir))
}

/// The finding for a machine without a usable cuDNN. If an installation was rejected, the help repairs that one.
fn none(context: &Context, machine: &Machine, rejected: &[RejectedCandidate], rejections: &[Finding]) -> Finding {
    let finding = Finding::new(NO_CUDNN, "no usable cuDNN 9 was found");
    if let Some(explicit) = context.search.explicit_candidate() {
        return none_in(finding, &explicit.dir, rejected.first());
    }
    let is_unused = rejections.is_empty();
    if let Some((major, names)) = is_unused.then(|| frameworks::needing_other_major(context, machine)).flatten() {
        return none_for_other_major(major, &names);
    }
    let older = || rejected.iter().filter(|one| matches!(one.error, ProbeError::OtherMajor { .. }));
    let upgrade = older()
        .find_map(|one| fix_commands::replace_older(&InstallationReport::read(&one.candidate.dir, &context.host)?));
    let older = older().map(|one| format!("{} {}", one.candidate.dir.printable(), one.error));
    let mut searched: Vec<String> = Vec::new();
    for dir in rejected.iter().map(|one| one.candidate.dir.printable()) {
        if !searched.contains(&dir) {
            searched.push(dir);
        }
    }
    let repair = rejections.first().and_then(|rejection| rejection.help.clone());
    finding
        .notes(rejections.iter().map(|rejection| format!("rejected: {}", rejection.message)))
        .notes(older)
        .notes(python_shim(context))
        .note(format!("searched {} directories: {}", searched.len(), searched.join(", ")))
        .help(
            repair
                .or_else(|| context.inactive_environment().map(|root| check_environment(&root)))
                .or_else(|| frameworks::install_for_active(context, machine))
                .or(upgrade)
                .or_else(|| environment_of_shim(context))
                .unwrap_or_else(|| fix_commands::install(context, machine)),
        )
}

/// What is installed in the environment of a project serves the project.
fn check_environment(root: &Path) -> Help {
    let text = format!("the virtual environment {} is here and not active: check that one first:", root.printable());
    Help::new(text).command(command_for_environment(root))
}

/// No cuDNN 9 is missing where all frameworks need another major.
fn none_for_other_major(major: u32, frameworks: &[String]) -> Finding {
    let kind = FindingKind { severity: Severity::Note, ..NO_CUDNN };
    let (names, ours) = (frameworks.join(", "), demand::CUDNN_MAJOR);
    Finding::new(kind, format!("no usable cuDNN {ours} was found; the frameworks here need cuDNN {major}: {names}"))
        .note(format!(
            "this project supports cuDNN {ours} alone: of cuDNN {major} it checks what the frameworks would load"
        ))
        .help(format!(
            "nothing is to be done for them; a program that needs cuDNN {ours} needs an environment of its own"
        ))
}

/// The Python that a program would run in, if a tool has put a script or link in place of it.
fn python_shim(context: &Context) -> Option<String> {
    let PythonShim { file, tool, bin } = context.python_shim.as_ref()?;
    let file = file.printable();
    Some(match bin {
        Some(bin) => format!("{file} belongs to {tool}, and starts the Python in {}", bin.printable()),
        None => format!("{file} belongs to {tool}; which Python it starts is not known, so none was searched"),
    })
}

/// The help if the search does not know which Python a shim starts, and no environment is active.
fn environment_of_shim(context: &Context) -> Option<Help> {
    let PythonShim { tool, bin: None, .. } = context.python_shim.as_ref()? else { return None };
    if context.search.environments().iter().any(python::is_active) {
        return None;
    }
    Some(python::help_for_shim(tool))
}

/// [`DIR_VARIABLE`] names a directory without a usable cuDNN.
fn none_in(finding: Finding, dir: &Path, rejected: Option<&RejectedCandidate>) -> Finding {
    let error = rejected.map_or(&ProbeError::NotFound, |one| &one.error);
    let subject = match rejected.map(RejectedCandidate::path).filter(|path| path != dir) {
        Some(file) => format!("and {}", file.printable()),
        None => "which".to_owned(),
    };
    let finding = finding
        .note(format!("{DIR_VARIABLE} is set to {}, {subject} {error}", dir.printable()))
        .note(format!("while {DIR_VARIABLE} is set, the loader searches no other directory"));
    if let ProbeError::SonameLinkMissing { file } = error
        && let Some(help) = fix_commands::links_like(dir, file)
    {
        return finding.help(help);
    }
    match error {
        ProbeError::GraphMissing { found_in: Some(found) } => finding.help(
            Help::new("set it to the directory that contains the libraries:")
                .command(set_variable(DIR_VARIABLE, found)),
        ),
        _ => finding.help(
            Help::new(format!("set it to the directory that contains {}, or unset it:", Library::Graph))
                .command(unset_variable(DIR_VARIABLE)),
        ),
    }
}

/// The report on the installation in this directory, which leaves the list of all.
fn take_report(all: &mut Vec<Installed>, dir: &Path, context: &Context) -> Option<InstallationReport> {
    match all.iter().position(|installed| installed.report.dir == dir) {
        Some(index) => Some(all.remove(index).report),
        // It is listed by the other name of a directory that is mounted twice.
        None => InstallationReport::read(dir, &context.host),
    }
}

fn several(others: &[Installed], used: &InstallationReport) -> Option<Finding> {
    let others: Vec<String> = others
        .iter()
        .map(|other| {
            let report = &other.report;
            let version = report.version.map_or(report.major.to_string(), |version| version.to_string());
            let origin = other.origin().map_or(String::new(), ToString::to_string);
            format!("also found: {version} in {} ({origin})", report.dir.printable())
        })
        .collect();
    if others.is_empty() {
        return None;
    }
    let count = others.len() + 1;
    let message = format!("{count} cuDNN installations were found; the loader uses {}", used.dir.printable());
    let help = format!("to choose another one for the loader, set {DIR_VARIABLE} to its directory; to see them all:");
    Some(Finding::new(SEVERAL, message).notes(others).help(Help::new(help).command(format!("{} list", doctor()))))
}

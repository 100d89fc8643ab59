//! Selects the installation that the loader would use, and reports why the others were rejected.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{
    InstallationReport, Installed, Installer, Package, deleted_packages, deleted_system_packages, site_packages,
};
use cudnn_frameworks::real_path;
use cudnn_probe::{
    Candidate, DIR_VARIABLE, Installation, Library, Origin, ProbeError, RejectedCandidate, Requirements, check_dir,
    identify_any,
};

use super::finding::{Finding, FindingKind, NO_CUDNN, REJECTED, SEVERAL, Severity};
use super::machine::Machine;
use super::{framework_requirement, frameworks, remedies};
use crate::context::Context;
use crate::packages::python_shim::PythonShim;
use crate::packages::{PackageChange, Site, dangling_dirs};
use crate::python;
use crate::remedy::Remedy;

/// A usable installation and the report on it.
pub(super) type Used = (Installation, InstallationReport);

#[derive(Default)]
pub(super) struct Selected {
    pub(super) used: Option<Used>,
    others: Vec<Installed>,
    rejected: Vec<RejectedCandidate>,
    /// The findings about unusable installations, and about packages that have lost their files.
    pub(super) rejections: Vec<Finding>,
}

impl Selected {
    pub(super) fn read(context: &Context) -> Selected {
        let selection = context.select(&Requirements::default());
        let mut others = Vec::new();
        let used = selection.installation.and_then(|selected| {
            others = context.inventory();
            let report = take_report(&mut others, &selected.dir, context)?;
            Some((selected, report))
        });
        let mut rejections = rejected(context, &selection.rejected);
        rejections.extend(deleted(context).iter().filter_map(|packages| deleted_finding(packages)));
        Selected { used, others, rejected: selection.rejected, rejections }
    }

    /// Returns whether someone installed an unusable cuDNN here, or named a directory for one.
    pub(super) fn is_cudnn_wanted(&self, context: &Context) -> bool {
        context.search.explicit_candidate().is_some() || !self.rejections.is_empty()
    }

    /// C010: no cuDNN is usable. If an installation was rejected, the help repairs it.
    pub(super) fn no_cudnn_finding(&self, context: &Context, machine: &Machine, cuda_major: Option<u32>) -> Finding {
        let Selected { rejected, rejections, .. } = self;
        let finding = Finding::new(NO_CUDNN, "no usable cuDNN 9 was found");
        if let Some(explicit) = context.search.explicit_candidate() {
            return no_cudnn_finding_in(finding, &explicit.dir, rejected.first());
        }
        let is_unused = rejections.is_empty();
        if let Some((major, names)) = is_unused.then(|| frameworks::needing_other_major(context, machine)).flatten() {
            return no_cudnn_finding_for_other_major(major, &names);
        }
        let older = || rejected.iter().filter(|one| matches!(one.error, ProbeError::OtherMajor { .. }));
        let upgrade = older()
            .find_map(|one| remedies::replace_older(&InstallationReport::read(&one.candidate.dir, &context.host)?));
        let older = older().map(|one| format!("{} {}", one.candidate.dir.printable(), one.error));
        let mut searched: Vec<String> = rejected.iter().map(|one| one.candidate.dir.printable()).collect();
        let mut seen = HashSet::new();
        searched.retain(|dir| seen.insert(dir.clone()));
        let repair = rejections.first().and_then(|rejection| rejection.remedy.clone());
        finding
            .notes(rejections.iter().map(|rejection| format!("rejected: {}", rejection.message)))
            .notes(older)
            .notes(python_shim(context))
            .note(format!("searched {} directories: {}", searched.len(), searched.join(", ")))
            .remedy(
                repair
                    .or_else(|| context.inactive_environment().map(|root| check_environment(&root)))
                    .or_else(|| context.lost_environment().map(|lost| lost.remedy()))
                    .or_else(|| frameworks::install_for_active(context, machine))
                    .or(upgrade)
                    .or_else(|| environment_of_shim(context))
                    .unwrap_or_else(|| frameworks::install_full(context, machine, cuda_major)),
            )
    }

    /// C016: there are several installations.
    pub(super) fn find_other_installations(&self, used: &InstallationReport) -> Option<Finding> {
        let note = |other: &Installed| {
            let report = &other.report;
            let version = report.version.map_or(report.major.to_string(), |version| version.to_string());
            let origin = other.origin().map_or(String::new(), ToString::to_string);
            format!("also found: {version} in {} ({origin})", report.dir.printable())
        };
        let others: Vec<String> = self.others.iter().map(note).collect();
        if others.is_empty() {
            return None;
        }
        let count = others.len() + 1;
        let message = format!("{count} cuDNN installations were found; the loader uses {}", used.dir.printable());
        let help =
            format!("to choose another one for the loader, set {DIR_VARIABLE} to its directory; to see them all:");
        Some(Finding::new(SEVERAL, message).notes(others).remedy(Remedy::new(help).look(["list"])))
    }
}

pub(super) fn installed_in(dir: &Path, context: &Context) -> Option<Used> {
    let installation = check_dir(&Candidate::new(dir, Origin::Explicit), &Requirements::default()).ok()?;
    let report = InstallationReport::read(&installation.dir, &context.host)?;
    Some((installation, report))
}

/// Returns one finding per directory with an unusable cuDNN 9, even if the directory was found under two names.
fn rejected(context: &Context, rejected: &[RejectedCandidate]) -> Vec<Finding> {
    let mut seen: Vec<(PathBuf, Finding)> = Vec::new();
    for one in rejected {
        let RejectedCandidate { candidate, error, .. } = one;
        let denied = remedies::denied_dir(one);
        let dir = denied.as_ref().unwrap_or(&candidate.dir);
        let dir = real_path(dir);
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
        if error.is_absence() {
            continue;
        }
        let report = InstallationReport::read(&dir, &context.host);
        let links = match error {
            ProbeError::SonameLinkMissing { file } => remedies::links_like(&dir, file),
            _ => None,
        };
        let permit = denied.as_deref().and_then(|dir| remedies::permit(dir, &candidate.origin));
        let Some(help) = links.or(permit).or_else(|| remedies::repair(error, report.as_ref())) else { continue };
        // `identify_any` can also distinguish a 32-bit library from a library for a different processor.
        let is_about_architecture = matches!(error, ProbeError::WrongArchitecture { .. });
        let exact = identify_any(&one.path(), Library::Graph).err().filter(|_| is_about_architecture);
        // If the file is visible, the file itself is unreadable, and not the directory.
        let path = denied.filter(|_| !one.path().path_exists()).unwrap_or_else(|| one.path());
        let message = format!("{} {}", path.printable(), exact.as_ref().unwrap_or(error));
        let finding = Finding::new(REJECTED, message).note(origin).remedy(help);
        seen.push((dir, finding));
    }
    seen.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns the cuDNN packages that have lost their files, although their installer has records of them, grouped by
/// installer.
fn deleted(context: &Context) -> Vec<Vec<Package>> {
    let environments = context.search.environments();
    let mut roots: Vec<&Path> = environments.iter().filter_map(Origin::root).collect();
    roots.dedup();
    let of_roots = roots.into_iter().flat_map(|root| {
        let (wheels, others): (Vec<Package>, Vec<Package>) =
            deleted_packages(root).into_iter().partition(|package| package.installer == Installer::Pip);
        [wheels, others]
    });
    of_roots.chain([deleted_system_packages(&context.host)]).collect()
}

/// Reports packages of one installer that have lost their files.
fn deleted_finding(packages: &[Package]) -> Option<Finding> {
    let first = packages.first()?;
    let names: Vec<String> = packages.iter().map(ToString::to_string).collect();
    let (graph, names) = (Library::Graph, names.join(" and "));
    let message = format!("{graph}, and maybe other files, of {names} in {} is deleted", first.root.printable());
    let finding = Finding::new(REJECTED, message).note(format!("they are in the records of {}", first.installer));
    let remedy = remedies::restore(packages)?;
    let installed = PackageChange::of(Site::OnPath).reinstall(packages.iter().map(|package| package.name.clone()));
    let links = dangling_dirs(site_packages(&first.root)).into_iter().filter(|link| installed.may_fill(link));
    let notes = links.map(|link| {
        format!("{} is a symbolic link that leads nowhere: no program can find files below it", link.printable())
    });
    Some(finding.notes(notes).remedy(remedy))
}

fn check_environment(root: &Path) -> Remedy {
    let text = format!("the virtual environment {} is not active: check it first:", root.printable());
    Remedy::new(text).look(["check".into(), "--python".into(), root.as_os_str().to_owned()])
}

fn no_cudnn_finding_for_other_major(major: u32, frameworks: &[String]) -> Finding {
    let kind = FindingKind { severity: Severity::Note, ..NO_CUDNN };
    let (names, ours) = (frameworks.join(", "), framework_requirement::CUDNN_MAJOR);
    Finding::new(kind, format!("no usable cuDNN {ours} was found; the frameworks here need cuDNN {major}: {names}"))
        .note(format!(
            "this project only supports cuDNN {ours}; for cuDNN {major}, it checks which files the frameworks would load"
        ))
        .remedy(format!(
            "no action needed; a program that needs cuDNN {ours} needs an environment of its own"
        ))
}

/// Describes the Python that a program would run in, if a tool has put a shim script or link in front of it.
fn python_shim(context: &Context) -> Option<String> {
    let PythonShim { file, tool, bin } = context.python_shim.as_ref()?;
    let file = file.printable();
    Some(match bin {
        Some(bin) => format!("{file} belongs to {tool}, and starts the Python in {}", bin.printable()),
        None => format!("{file} belongs to {tool}; which Python it starts is not known, and no Python was searched"),
    })
}

/// Returns the help for a shim that starts an unknown Python, without an active environment.
fn environment_of_shim(context: &Context) -> Option<Remedy> {
    let PythonShim { tool, bin: None, .. } = context.python_shim.as_ref()? else { return None };
    if context.search.environments().iter().any(python::is_active) {
        return None;
    }
    Some(python::help_for_shim(tool))
}

/// Adds evidence if [`DIR_VARIABLE`] names a directory without a usable cuDNN.
fn no_cudnn_finding_in(finding: Finding, dir: &Path, rejected: Option<&RejectedCandidate>) -> Finding {
    let error = rejected.map_or(&ProbeError::NotFound, |one| &one.error);
    let subject = match rejected.map(RejectedCandidate::path).filter(|path| path != dir) {
        Some(file) => format!("and {}", file.printable()),
        None => "which".to_owned(),
    };
    let finding = finding
        .note(format!("{DIR_VARIABLE} is set to {}, {subject} {error}", dir.printable()))
        .note(format!("while {DIR_VARIABLE} is set, the loader searches no other directory"));
    if let ProbeError::SonameLinkMissing { file } = error
        && let Some(help) = remedies::links_like(dir, file)
    {
        return finding.remedy(help);
    }
    match error {
        ProbeError::GraphMissing { found_in: Some(found) } => finding.remedy(
            Remedy::new(format!("set {DIR_VARIABLE} to the directory that contains the libraries:"))
                .set(DIR_VARIABLE, found),
        ),
        _ => finding.remedy(
            Remedy::new(format!("set {DIR_VARIABLE} to the directory that contains {}, or unset it:", Library::Graph))
                .unset(DIR_VARIABLE),
        ),
    }
}

fn take_report(all: &mut Vec<Installed>, dir: &Path, context: &Context) -> Option<InstallationReport> {
    match all.iter().position(|installed| installed.report.dir == dir) {
        Some(index) => Some(all.remove(index).report),
        // The directory is mounted twice and listed under the other name.
        None => InstallationReport::read(dir, &context.host),
    }
}

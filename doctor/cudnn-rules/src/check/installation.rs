//! Checks the files of an installation against package records, the release, and the machine.

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::{InstallationReport, Installer, LibraryReport, Package, Variant};
use cudnn_probe::facts::{self, PathFacts};
use std::path::PathBuf;

use cudnn_probe::{Library, Os, ProbeError, release_facts};

use super::finding::{
    Finding, FindingKind, INCOMPLETE, MIXED_CUDA, MIXED_VERSIONS, NOT_AS_INSTALLED, NOT_VERIFIED, OLD_DRIVER, OLD_GPU,
    OVERLAPPING_PACKAGES, Severity, UNUSABLE_LIBRARY,
};
use super::limits::{LAST_CUDA_FOR_OLD_GPUS, LAST_FOR_OLD_GPUS};
use super::machine::{Gpu, Machine, capability};
use super::remedies::{self, Releases, Wanted};
use crate::as_installed;
use crate::context::Context;
use crate::cudnn_file::{is_drop_in, shim_conflict, sums_of_cudnn};
use crate::remedy::{Action, Remedy};

const MAX_SYMBOLS: usize = 4;

/// Reports foreign files: from a different release, for a different CUDA, or changed since their package was installed.
pub(super) fn foreign(report: &InstallationReport, verify: bool) -> Vec<Finding> {
    let mut findings = mixed(report);
    findings.extend(changed(report, differences(report, verify)));
    findings
}

pub(super) fn mixed(report: &InstallationReport) -> Vec<Finding> {
    let mut findings = conflicts(report);
    findings.extend(shim_of_another_release(report));
    findings
}

/// C014, as a note: the directory contains all files of several releases, and programs use one of them.
pub(super) fn several_releases(report: &InstallationReport) -> Option<Finding> {
    let releases = Releases::read(&report.dir).filter(|releases| !releases.others.is_empty())?;
    let (dir, kept, others) = (report.dir.printable(), releases.kept, releases.list_others());
    let kind = FindingKind { severity: Severity::Note, ..MIXED_VERSIONS };
    let message = format!("{dir} contains all files of cuDNN {kept}, which its links lead to, and of {others}");
    let finding = Finding::new(kind, message).note("an archive was unpacked over another release");
    Some(finding.remedy(releases.remove_others(&report.dir)).about("several releases"))
}

/// Reports unusable or missing files of an installation that the loader ignores but other programs load.
pub(super) fn check_for_other_programs(report: &InstallationReport) -> Vec<Finding> {
    let mut findings = unusable(report);
    findings.extend(mixed(report));
    // A lone shim is no installation.
    findings.extend(report.library(Library::Graph).and_then(|_| incomplete(report)));
    let note = |finding: Finding| finding.note(format!("programs that load {} by name get this cuDNN", Library::Shim));
    findings.into_iter().map(note).collect()
}

/// C013, as a warning: programs find this file in place of a shim, outside any installation.
pub(super) fn unusable_shim(report: &InstallationReport) -> Option<Finding> {
    let finding = unusable_parts(report).find(|(part, _)| part.library == Library::Shim);
    let kind = FindingKind { severity: Severity::Warning, ..UNUSABLE_LIBRARY };
    let (part, error) = finding?;
    let message = format!("{} {error}", part.path.printable());
    let finding = Finding::new(kind, message).remedy(repair(part, error, report)).about(part.path.to_string_lossy());
    Some(finding.note(format!("programs that load {} by name get this file, and fail", Library::Shim)))
}

pub(super) fn unusable(report: &InstallationReport) -> Vec<Finding> {
    let finding = |(part, error): (&LibraryReport, &ProbeError)| {
        Finding::new(UNUSABLE_LIBRARY, format!("{} {error}", part.path.printable()))
            .notes(opened_first(part))
            .remedy(repair(part, error, report))
            .about(part.path.to_string_lossy())
    };
    unusable_parts(report).map(finding).chain(dangling(report)).collect()
}

/// C013, as a warning: links for the linker, such as `libcudnn.so`, to missing files. Some programs open cuDNN by such
/// names.
fn dangling(report: &InstallationReport) -> Option<Finding> {
    let names = Library::ALL.iter().filter_map(|library| library.linux_name().strip_suffix(".9"));
    let links = names.map(|name| report.dir.join(name)).filter(|link| link.is_link() && !link.target_exists());
    let links: Vec<PathBuf> = links.filter(|_| report.os == Os::Linux).collect();
    let (first, others) = links.split_first()?;
    let kind = FindingKind { severity: Severity::Warning, ..UNUSABLE_LIBRARY };
    let target = facts::read_link(first).unwrap_or_default().printable();
    let message = format!("{} is a symbolic link to {target}, which does not exist", first.printable());
    let finding = Finding::new(kind, message)
        .note("programs that open cuDNN by this name, and the linker, do not find it")
        .notes(others.iter().map(|other| format!("the target of {} is missing too", other.printable())))
        .about(first.to_string_lossy());
    let text = "remove what leads nowhere, or install the package that it belongs to again:";
    Some(finding.remedy(Remedy::new(text).action(Action::Remove(links)).by_hand()))
}

/// Returns the unusable files and the reasons.
pub fn unusable_parts(report: &InstallationReport) -> impl Iterator<Item = (&LibraryReport, &ProbeError)> {
    let files = report.libraries.iter().chain(&report.versioned);
    files.filter_map(|part| Some((part, part.identity.as_ref().err()?)))
}

/// Returns the fix for one file. A file with the version in its name did not come from a package if the same library
/// also exists without the version.
pub fn repair(part: &LibraryReport, error: &ProbeError, report: &InstallationReport) -> Remedy {
    if let ProbeError::Unreadable { error } = error
        && error.kind() == std::io::ErrorKind::PermissionDenied
    {
        return remedies::permit_file(&part.path);
    }
    if let Some(removal) = remove_added(part, report) {
        return removal;
    }
    if !is_versioned(part) {
        return remedies::repair(error, Some(report)).unwrap_or_else(|| remedies::reinstall(report));
    }
    let text = format!("remove this file, so that cuDNN opens {} instead:", part.library);
    remedies::leftovers(report).unwrap_or_else(|| remedies::remove(text, &part.path))
}

/// Removes a file that somebody has added to the directory of a wheel, because reinstalling the wheel would leave it.
fn remove_added(part: &LibraryReport, report: &InstallationReport) -> Option<Remedy> {
    let is_wheel = report.package.as_ref().is_some_and(|package| package.installer == Installer::Pip);
    let has_record = report.libraries.iter().any(|other| !other.recorded.is_empty());
    let is_added = is_wheel && has_record && part.recorded.is_empty();
    is_added.then(|| remedies::remove("remove this file, which no package owns:".to_owned(), &part.path))
}

fn is_versioned(part: &LibraryReport) -> bool {
    part.path.file_name().is_none_or(|name| name != part.library.file_name() && name != part.library.windows_name())
}

fn opened_first(part: &LibraryReport) -> Option<String> {
    is_versioned(part).then(|| format!("cuDNN itself opens it instead of {}: it tries this name first", part.library))
}

fn conflicts(report: &InstallationReport) -> Vec<Finding> {
    let evidence = || report.evidence.iter().map(|evidence| format!("{}: {}", evidence.value, evidence.source));
    let finding = |(part, error): (&LibraryReport, ProbeError)| {
        let kind = if matches!(error, ProbeError::MixedCuda { .. }) { MIXED_CUDA } else { MIXED_VERSIONS };
        Finding::new(kind, format!("{} {error}", part.path.printable()))
            .notes(opened_first(part))
            .notes(symbols(&error))
            .notes(report.unowned.iter().map(|file| format!("{} belongs to no package", file.printable())))
            .notes(evidence())
            .remedy(repair(part, &error, report))
    };
    report.conflicts().into_iter().filter(|(part, _)| !stands_for_shim(part)).map(finding).collect()
}

/// Returns whether this is the drop-in, which replaces NVIDIA's shim on purpose.
fn stands_for_shim(part: &LibraryReport) -> bool {
    part.library == Library::Shim && is_drop_in(&part.path)
}

/// C014: the functions of the shim, which contains no version number, belong to a different release.
fn shim_of_another_release(report: &InstallationReport) -> Option<Finding> {
    let (shim, graph) = (usable(report, Library::Shim)?, usable(report, Library::Graph)?);
    let version = graph.identity.as_ref().ok()?.version?;
    let conflict = shim_conflict(&shim.path, version)?;
    let message = format!("{} {conflict}, but the {} next to it is {version}", shim.path.printable(), Library::Graph);
    let remedy = remove_added(shim, report).unwrap_or_else(|| remedies::reinstall(report));
    Some(
        Finding::new(MIXED_VERSIONS, message)
            .note("it exports the functions of other releases; the file contains no version number")
            .remedy(remedy),
    )
}

fn usable(report: &InstallationReport, library: Library) -> Option<&LibraryReport> {
    report.library(library).filter(|part| part.identity.is_ok())
}

fn symbols(error: &ProbeError) -> Vec<String> {
    let ProbeError::OtherRelease { missing } = error else { return Vec::new() };
    let listed = missing.iter().take(MAX_SYMBOLS).map(|symbol| format!("needs the symbol {symbol}"));
    let rest = missing.len().saturating_sub(MAX_SYMBOLS);
    listed.chain((rest > 0).then(|| format!("and {rest} more"))).collect()
}

/// C024: usable libraries that differ from the wheel's record.
pub(super) fn not_as_installed(report: &InstallationReport, verify: bool) -> Option<Finding> {
    changed(report, differences(report, verify).into_iter().chain(other_version(report)).collect())
}

fn differences(report: &InstallationReport, verify: bool) -> Vec<String> {
    let usable = report.libraries.iter().filter(|part| part.identity.is_ok());
    usable.filter(|part| !stands_for_shim(part)).filter_map(|part| difference(part, verify)).collect()
}

fn changed(report: &InstallationReport, differences: Vec<String>) -> Option<Finding> {
    if differences.is_empty() {
        return None;
    }
    let (count, dir) = (differences.len(), report.dir.printable());
    let message = match count {
        1 => format!("a library in {dir} has changed since its package was installed"),
        _ => format!("{count} libraries in {dir} have changed since their package was installed"),
    };
    Some(Finding::new(NOT_AS_INSTALLED, message).notes(differences).remedy(remedies::reinstall(report)))
}

/// Describes a graph library from a different release than the wheel that pip has on record.
fn other_version(report: &InstallationReport) -> Option<String> {
    let package =
        report.package.as_ref().filter(|package| package.installer == Installer::Pip && package.is_cudnn())?;
    let recorded = package.release()?;
    let found = report.version.filter(|found| report.other_packages.is_empty() && *found != recorded)?;
    Some(format!("{} is from {found}, but pip has a record of {} {}", Library::Graph, package.name, recorded))
}

/// Returns whether one wheel has recorded the sizes of all libraries except the shim.
pub(super) fn is_one_wheel(report: &InstallationReport) -> bool {
    let package = |part: &LibraryReport| match &part.recorded[..] {
        [recorded] if facts::metadata(&part.path).is_ok_and(|file| file.len() == recorded.len) => {
            Some(recorded.package.clone())
        }
        _ => None,
    };
    let mut packages = report.libraries.iter().filter(|part| part.library != Library::Shim).map(package);
    let first = packages.next().flatten();
    first.is_some() && packages.all(|package| package == first)
}

/// Splits the libraries into those with a recorded sha256 and the others.
fn verifiable(report: &InstallationReport) -> (Vec<&LibraryReport>, Vec<&LibraryReport>) {
    let usable = report.libraries.iter().chain(&report.versioned).filter(|part| part.identity.is_ok());
    let usable = usable.filter(|part| !stands_for_shim(part));
    usable.partition(|part| part.recorded.iter().any(|recorded| recorded.sha256.is_some()))
}

/// Returns the names of the libraries that match their recorded sha256.
pub fn verified(report: &InstallationReport) -> Vec<&'static str> {
    let matches = |part: &&&LibraryReport| difference(part, true).is_none();
    verifiable(report).0.iter().filter(matches).map(|part| part.library.name_on(report.os)).collect()
}

/// Returns whether every library matches the sha256 recorded by a package. Reads all files.
pub(super) fn is_as_installed(report: &InstallationReport) -> bool {
    let (with, without) = verifiable(report);
    let is_usable = unusable_parts(report).next().is_none();
    is_usable && without.is_empty() && with.iter().all(|part| difference(part, true).is_none())
}

/// C026: with `--verify`, the libraries without a record to compare with.
pub(super) fn not_verified(report: &InstallationReport) -> Option<Finding> {
    let (with, without) = verifiable(report);
    let (count, total) = (without.len(), with.len() + without.len());
    let dir = report.dir.printable();
    let message = match (with.len(), count) {
        (_, 0) => return None,
        (0, _) => format!("no library in {dir} was verified: no wheel record contains their sha256"),
        _ => format!("{count} of {total} libraries in {dir} were not verified: no record contains their sha256"),
    };
    let name = |part: &&LibraryReport| part.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = without.iter().map(name).collect();
    let help = match &report.package {
        Some(package @ Package { installer: Installer::Dpkg, .. }) => verification("dpkg", package),
        Some(package @ Package { installer: Installer::Rpm, .. }) => verification("rpm", package),
        _ => Remedy::new("compare these checksums with the package or archive that the files came from:")
            .action(Action::Inspect(sums_of_cudnn(&report.dir))),
    };
    let finding = Finding::new(NOT_VERIFIED, message).note(format!("not verified: {}", names.join(", ")));
    let finding = match &report.package {
        Some(package) => finding.note(format!("installed as {package}")),
        None => finding.note("no package manager has a record of these files"),
    };
    Some(finding.remedy(help))
}

fn verification(program: &str, package: &Package) -> Remedy {
    Remedy::new(format!("{} itself can compare the files:", package.installer))
        .action(Action::Inspect(Command::new(program, ["--verify", &package.name])))
}

fn difference(part: &LibraryReport, verify: bool) -> Option<String> {
    as_installed::difference(&part.path, part.library.file_name(), &part.recorded, verify)
}

pub(super) fn incomplete(report: &InstallationReport) -> Option<Finding> {
    if report.variant != Variant::Partial || report.missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = report.missing.iter().map(|library| library.name_on(report.os)).collect();
    let (missing, total) = (names.len(), names.len() + report.libraries.len());
    let links = remedies::lost_links(report).len();
    let dir = report.dir.printable();
    let message = match names.as_slice() {
        [only] if links == 1 => format!("the link {only} is missing in {dir}; the file exists under its full name"),
        _ if links == missing => {
            format!("{missing} of {total} links are missing in {dir}; the files exist under their full names")
        }
        [only] => format!("{only} is missing in {}", report.dir.printable()),
        _ => format!("{missing} of {total} libraries are missing in {}", report.dir.printable()),
    };
    let finding = Finding::new(INCOMPLETE, message).note(format!("missing: {}", names.join(", ")));
    let finding = if report.missing.contains(&Library::Shim) {
        finding.note(format!(
            "programs that are linked to {}, or load it by name, cannot use this directory",
            Library::Shim.name_on(report.os)
        ))
    } else {
        finding
    };
    Some(finding.remedy(remedies::reinstall(report)))
}

/// C023: several packages own the same files, and the package installed last has overwritten the others.
pub(super) fn overlapping_packages(report: &InstallationReport, machine: &Machine) -> Option<Finding> {
    let package = report.package.as_ref().filter(|_| !report.other_packages.is_empty())?;
    let packages = || std::iter::once(package).chain(&report.other_packages);
    let (count, dir) = (packages().count(), report.dir.printable());
    let message = if packages().all(|other| other.name == package.name) {
        format!("{count} versions of {} are recorded as the owner of the files in {dir}", package.name)
    } else {
        format!("{count} packages own the files in {dir}")
    };
    Some(
        Finding::new(OVERLAPPING_PACKAGES, message)
            .notes(packages().map(|package| format!("installed: {package}")))
            .remedy(remedies::keep_one(report, |cuda_major| machine.too_old_for(cuda_major).is_none())),
    )
}

/// Returns whether the release no longer supports the GPU. The limits of Jetson packages are unknown.
pub(super) fn is_too_old(report: &InstallationReport, gpu: &Gpu) -> bool {
    let minimum = report.version.map_or(0, release_facts::min_compute_capability);
    gpu.compute_capability < minimum && !gpu.is_tegra()
}

pub(super) fn old_gpu(report: &InstallationReport, gpu: &Gpu, context: &Context) -> Option<Finding> {
    let version = report.version?;
    let minimum = release_facts::min_compute_capability(version);
    let message = format!(
        "cuDNN {version} does not support {}: its compute capability is {}, the minimum is {}",
        gpu.name,
        gpu.capability(),
        capability(minimum)
    );
    let finding = Finding::new(OLD_GPU, message);
    let (last, wheel_version) = LAST_FOR_OLD_GPUS;
    Some(if gpu.compute_capability < release_facts::min_compute_capability(last) {
        finding.remedy("no cuDNN 9 supports this GPU; use cuDNN 8 with an older CUDA, or a newer GPU")
    } else {
        finding.note(format!("{last} is the last release for compute capability {}", gpu.capability())).remedy(
            remedies::install_version(report, wheel_version, LAST_CUDA_FOR_OLD_GPUS, context)
                .unwrap_or_else(Remedy::new),
        )
    })
}

/// C002: the driver is too old. Must run after the load test, which starts the driver.
pub(super) fn old_driver(report: &InstallationReport, machine: &Machine, context: &Context) -> Option<Finding> {
    let major = report.cuda_major?;
    let (driver, minimum) = machine.too_old_for(major)?;
    let finding =
        Finding::new(OLD_DRIVER, format!("{driver} is too old for CUDA {major}, which needs {minimum} or newer"))
            .note(format!("the cuDNN in {} is built for CUDA {major}", report.dir.printable()));
    let install = format!("install driver {minimum} or newer");
    let older = (FIRST_CUDA_WITH_WHEELS..major).rev().find(|major| machine.too_old_for(*major).is_none());
    let wanted = older.map(|older| Wanted { cuda_major: Some(older), ..Wanted::default() });
    Some(match wanted.map(|wanted| remedies::upgrade_to_requirement(report, &wanted, &machine.gpus, context)) {
        Some(Ok(remedy)) => {
            let text = format!("{install}; or {}", remedy.text);
            finding.remedy(remedy.with_text(text))
        }
        _ => finding.remedy(format!("{install}, or a cuDNN for an older CUDA major")),
    })
}

const FIRST_CUDA_WITH_WHEELS: u32 = 12;

//! Checks which cuDNN the system finds for programs that load it by name, without directories added at run time.

use std::io::ErrorKind::PermissionDenied;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::facts::PathFacts;
use cudnn_probe::{DIR_VARIABLE, Library, Origin, Os, ProbeError, identify};

use super::finding::{Finding, FindingKind, NOT_ON_PATH, OTHER_ON_PATH, Severity, UNUSABLE_LIBRARY};
use super::frameworks::Users;
use super::plain_program::{FoundLibrary, find, find_in, is_same};
use super::remedies::{self, search_first};
use super::{companions, dlls, installation, ld_so};
use crate::context::Context;
use crate::cudnn_file::is_drop_in;
use crate::packages::python_in;
use crate::remedy::Remedy;
use crate::shell::split_search_path;
use crate::system::{LOADER, choose};

/// Runs all checks. `users` are the frameworks that load the installation.
pub(super) fn findings(report: &InstallationReport, context: &Context, users: &Users) -> Vec<Finding> {
    let finding = match find_shim(context) {
        None => not_found(report, context),
        Some(found) if is_drop_in(&found.path) => other_than_drop_in(&found, report, context),
        Some(found) if Os::HOST == Os::Windows => dlls::found(&found, report, context),
        Some(found) => ld_so::found(&found, report, context),
    };
    let mut finding = finding.filter(|finding| !users.find_without_path(finding));
    finding.iter_mut().for_each(|finding| users.qualify(finding));
    let other = if Os::HOST == Os::Windows { None } else { ld_so::opened(report, context, finding.as_ref()) };
    let companions = companions::findings(report, context, &users.cuda);
    finding.into_iter().chain(other).chain(companions).collect()
}

fn find_shim(context: &Context) -> Option<FoundLibrary> {
    find(Library::Shim.file_name(), context)
}

/// C020: programs do not find the shim of this installation.
fn not_found(report: &InstallationReport, context: &Context) -> Option<Finding> {
    // The loader skips unreadable files and files for other processors, so a search path would not help.
    report.library(Library::Shim).filter(|part| part.identity.is_ok())?;
    if is_found_by_python(report, context) {
        return None;
    }
    let (shim, dir) = (Library::Shim, report.dir.printable());
    let path = choose("a search path", "PATH");
    let finding = Finding::new(NOT_ON_PATH, format!("{LOADER} does not find {shim}: {dir} is not on {path}"))
        .note(choose(
            "programs without a run path that load cuDNN by name fail",
            "programs that load cuDNN by name fail (error 126) unless the DLLs are next to the program; PyTorch opens its \
             own DLLs by path",
        ))
        .note(match context.starter_of(&report.dir) {
            Some(tool) => format!("this project's loader finds it in programs that {tool} starts"),
            None => "this project's loader finds it".to_owned(),
        });
    Some(finding.remedy(search_first(&report.dir)))
}

/// Returns whether the Python of the surrounding environment finds the installation. conda's Python has a run path to
/// the environment's libraries, like all programs that conda's compilers build.
fn is_found_by_python(report: &InstallationReport, context: &Context) -> bool {
    let environments = context.search.environments();
    let mut roots = environments.iter().filter_map(Origin::root).filter(|root| report.dir.starts_with(root));
    Os::HOST == Os::Linux
        && roots.any(|root| {
            let found = context.simulation(&python_in(root)).ok();
            let found = found.and_then(|mut python| find_in(&mut python, Library::Shim.file_name()));
            found.is_some_and(|found| found.path.parent().is_some_and(|dir| is_same(dir, &report.dir)))
        })
}

/// C021: programs find a drop-in that loads another installation.
fn other_than_drop_in(found: &FoundLibrary, report: &InstallationReport, context: &Context) -> Option<Finding> {
    let loaded = context.selected_by_drop_in(&found.path).filter(|loaded| !is_same(&loaded.dir, &report.dir))?;
    let (drop_in, dir, other) = (found.path.printable(), report.dir.printable(), loaded.dir.printable());
    let message = format!("the drop-in {drop_in} loads another cuDNN: {} in {other}", loaded.version);
    let remedy = Remedy::new("to choose one for all of them, set this variable to its directory:");
    Some(
        Finding::new(OTHER_ON_PATH, message)
            .note(format!("{LOADER} finds the drop-in by: {}", found.rule))
            .note(format!("the drop-in uses {other}: {}", loaded.origin))
            .note(format!("this project's loader uses the cuDNN in {dir} in other programs"))
            .remedy(remedy.set(DIR_VARIABLE, &report.dir)),
    )
}

/// Returns the drop-in that programs find by name, if it uses this installation.
pub(super) fn drop_in_before(report: &InstallationReport, context: &Context) -> Option<PathBuf> {
    let found = find_shim(context).filter(|found| is_drop_in(&found.path))?;
    let loaded = context.selected_by_drop_in(&found.path)?;
    is_same(&loaded.dir, &report.dir).then_some(found.path)
}

/// Checks the cuDNN that programs find by name, if it differs from this installation, and reports unusable files that
/// ld.so skips before it.
pub(super) fn check_linked_programs(report: Option<&InstallationReport>, context: &Context) -> Vec<Finding> {
    let found = find_shim(context).map(|found| found.path);
    let unusable = |shim: &Path| installation::unusable_shim(&InstallationReport::read(shim.parent()?, &context.host)?);
    let of_found = found.as_deref().map(|shim| match report {
        Some(report) => check_found(shim, report, context),
        None => unusable(shim).into_iter().collect(),
    });
    of_found.into_iter().flatten().chain(passed_over(found.as_deref(), report, context)).collect()
}

/// C013, as a note: unusable shims in LD_LIBRARY_PATH that ld.so skips before it finds this file.
fn passed_over(found: Option<&Path>, report: Option<&InstallationReport>, context: &Context) -> Vec<Finding> {
    let library_path = context.host.variable("LD_LIBRARY_PATH").filter(|_| Os::HOST == Os::Linux).unwrap_or_default();
    let is_other = |dir: &PathBuf| {
        // A directory with a graph library is an installation, and reported elsewhere.
        let is_installation = dir.join(Library::Graph.file_name()).path_exists();
        dir.is_absolute() && !is_installation && report.is_none_or(|report| !is_same(dir, &report.dir))
    };
    let dirs = split_search_path(&library_path).into_iter().map(PathBuf::from);
    let before = dirs.take_while(|dir| found.is_none_or(|found| found.parent() != Some(dir))).filter(is_other);
    let files = before.map(|dir| dir.join(Library::Shim.file_name())).filter(|file| file.path_exists());
    let finding = |file: PathBuf| {
        let error = identify(&file, Library::Shim).err()?;
        let remedy = match &error {
            ProbeError::BrokenLink { .. } => {
                remedies::remove("remove it, unless a program creates its target:".into(), &file)
            }
            ProbeError::Unreadable { error } if error.kind() == PermissionDenied => remedies::permit_file(&file),
            // A search path may contain libraries for several processors.
            _ => return None,
        };
        let kind = FindingKind { severity: Severity::Note, ..UNUSABLE_LIBRARY };
        let finding = Finding::new(kind, format!("{} {error}", file.printable())).remedy(remedy.by_hand());
        Some(
            finding
                .note(format!("{LOADER} passes over it and searches the next directory"))
                .about(file.to_string_lossy()),
        )
    };
    files.filter_map(finding).collect()
}

fn check_found(shim: &Path, report: &InstallationReport, context: &Context) -> Vec<Finding> {
    let is_drop_in = is_drop_in(shim);
    let dir = if is_drop_in {
        context.selected_by_drop_in(shim).map(|loaded| loaded.dir)
    } else {
        shim.parent().map(Path::to_owned)
    };
    let other = dir.filter(|dir| !is_same(dir, &report.dir));
    let other = other.and_then(|dir| InstallationReport::read(&dir, &context.host));
    let Some(other) = other.filter(|other| other.major == 9) else { return Vec::new() };
    // Replacing the files would also remove a drop-in in the same directory.
    let text = "move the drop-in to a directory without other cuDNN files, or point it to the installation:";
    let remedy = || Remedy::new(text).set(DIR_VARIABLE, &report.dir);
    let add_help = |finding: Finding| if is_drop_in { finding.remedy(remedy()) } else { finding };
    installation::check_for_other_programs(&other).into_iter().map(add_help).collect()
}

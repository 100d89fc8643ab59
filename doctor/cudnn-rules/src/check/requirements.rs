//! Checks the installation against the requirements given on the command line: C018, C019.

use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::{InstallationReport, Variant};
use cudnn_loader::Function;
use cudnn_probe::{Installation, Library, ProbeError, Requirements, Version, check_dir};

use super::Requested;
use super::finding::{Finding, LACKS_FUNCTION, REQUIREMENT};
use super::framework_requirement::CUDNN_MAJOR;
use super::machine::Gpu;
use super::program::{Call, MAX_CALLS};
use super::remedies::{self, Wanted};
use crate::context::Context;
use crate::remedy::Remedy;

/// Returns the findings, which share one remedy that meets all requirements. `called` is the program that finds this
/// cuDNN, and the functions it calls.
pub(super) fn findings(
    requested: &Requested,
    called: Option<(&Path, &[Call])>,
    context: &Context,
    used: &Installation,
    report: &InstallationReport,
    gpus: &[Gpu],
) -> Vec<Finding> {
    // A failed check of one requirement would hide the other.
    let each = [requirements(minimum(requested), None), requirements(None, requested.cuda_major)];
    let errors: Vec<ProbeError> = each.iter().filter_map(|requirements| requirements.check(used).err()).collect();
    let lacking = requested.functions.iter().filter_map(|function| lacks(*function, report));
    let lacking = lacking.chain(called.and_then(|(name, called)| lacks_called(name, called, report)));
    let mut findings: Vec<Finding> = unmet(&errors, report).into_iter().chain(lacking).collect();
    if findings.is_empty() {
        return findings;
    }
    let called = called.map(|(_, called)| called);
    let functions = requested.functions.iter().chain(called.into_iter().flatten().map(|(function, _)| function));
    let functions: Vec<Function> = functions.copied().collect();
    let (note, remedy) = fix(requested, &functions, called.is_some(), context, report, gpus);
    for finding in &mut findings {
        finding.notes.extend(note.clone());
        finding.remedy = Some(remedy.clone());
    }
    findings
}

fn minimum(requested: &Requested) -> Option<Version> {
    requested.minimum.filter(|minimum| minimum.major == CUDNN_MAJOR)
}

fn requirements(minimum: Option<Version>, cuda_major: Option<u32>) -> Requirements {
    let mut requirements = Requirements::default();
    requirements.minimum = minimum;
    requirements.cuda_major = cuda_major;
    requirements
}

fn fix(
    requested: &Requested,
    functions: &[Function],
    is_of_program: bool,
    context: &Context,
    report: &InstallationReport,
    gpus: &[Gpu],
) -> (Option<String>, Remedy) {
    let libraries = || functions.iter().map(|function| function.library());
    let newer = functions.iter().map(|function| function.since());
    let newer = newer.filter(|since| report.version.is_some_and(|version| version < *since));
    let minimum = minimum(requested).into_iter().chain(newer).max();
    let requirements = requirements(minimum, requested.cuda_major);
    let has_all = |other: &Installation| libraries().all(|library| other.check(library).is_ok());
    let other = context.search.candidates().find_map(|dir| check_dir(&dir, &requirements).ok().filter(has_all));
    if let Some(Installation { version, dir, origin, .. }) = &other {
        let note = format!("{version} in {} meets the requirements ({origin})", dir.printable());
        return (Some(note.printable()), remedies::use_other(dir));
    }
    let is_jit = report.variant == Variant::JitOnly;
    let lacks = |library: Library| report.library(library).is_none() && (is_jit || report.missing.contains(&library));
    let full = libraries().any(lacks);
    let wanted = Wanted { minimum, cuda_major: requested.cuda_major, full, is_of_program };
    (None, remedies::upgrade_to_requirement(report, &wanted, gpus, context).unwrap_or_else(Remedy::new))
}

/// C018: the installation is of the wrong release, or for the wrong CUDA.
fn unmet(errors: &[ProbeError], report: &InstallationReport) -> Option<Finding> {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let message = format!("the installation in {} {}", report.dir.printable(), errors.join(", and "));
    // List all owners, because it is unknown which package was installed last.
    let packages = report.package.iter().chain(&report.other_packages);
    let notes = packages.map(|package| format!("installed as {package}, in {}", package.root.printable()));
    (!errors.is_empty()).then(|| Finding::new(REQUIREMENT, message).notes(notes))
}

/// C019: a function given on the command line is missing.
fn lacks(function: Function, report: &InstallationReport) -> Option<Finding> {
    let (version, since, library) = (report.version?, function.since(), function.library());
    let message = if version < since {
        format!("{function} was added in cuDNN {since}, but found cuDNN {version}")
    } else if report.library(library).is_none() {
        format!("{function} is in {library}, which this cuDNN ({}) does not include", report.variant)
    } else {
        return None;
    };
    let note = format!("the loader uses the cuDNN in {}", report.dir.printable());
    Some(Finding::new(LACKS_FUNCTION, message).note(note))
}

/// C019: the program calls functions of libraries that this cuDNN lacks. C083 reports functions of later releases.
fn lacks_called(program: &Path, called: &[Call], report: &InstallationReport) -> Option<Finding> {
    let version = report.version?;
    let is_lacking =
        |(function, _): &&Call| function.since() <= version && report.library(function.library()).is_none();
    let lacking: Vec<&Call> = called.iter().filter(is_lacking).collect();
    let (first, _) = lacking.first()?;
    let (name, variant, count) = (program.printable(), report.variant, lacking.len());
    let functions = if count == 1 { first.to_string() } else { format!("{count} functions") };
    let message = format!("{name} calls {functions} of libraries that this cuDNN ({variant}) does not include");
    let list = lacking.iter().take(MAX_CALLS);
    let list =
        list.map(|(function, file)| format!("{function}: in {}, called by {}", function.library(), file.printable()));
    let dir = format!("the program finds the cuDNN in {}", report.dir.printable());
    Some(Finding::new(LACKS_FUNCTION, message).notes(list).note(dir))
}

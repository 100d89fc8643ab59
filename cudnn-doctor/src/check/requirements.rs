//! The program's requirements, as the command line states them, against the installation that it would get.

use cudnn_loader::Function;
use cudnn_probe::{Installation, InstallationReport, Library, ProbeError, Requirements, Variant, Version, check_dir};

use super::Requested;
use super::finding::{Finding, Help, LACKS_FUNCTION, REQUIREMENT};
use super::fix_commands::{self, Wanted};
use super::machine::Gpu;
use crate::context::Context;
use crate::escape::Printable;

/// The major that this tool examines.
pub(super) const MAJOR: u32 = 9;

/// All findings have one help, which meets all requirements.
pub(super) fn findings(
    requested: &Requested,
    context: &Context,
    used: &Installation,
    report: &InstallationReport,
    gpus: &[Gpu],
) -> Vec<Finding> {
    // Each alone, so that the first that is not met does not hide the other one.
    let each = [requirements(minimum(requested), None), requirements(None, requested.cuda_major)];
    let errors: Vec<ProbeError> = each.iter().filter_map(|requirements| requirements.check(used).err()).collect();
    let unmet = (!errors.is_empty()).then(|| unmet(&errors, report));
    let lacking: Vec<Finding> = requested.functions.iter().filter_map(|function| lacks(*function, report)).collect();
    if unmet.is_none() && lacking.is_empty() {
        return Vec::new();
    }
    let (note, help) = fix(requested, context, report, gpus);
    let add = |finding: Finding| finding.notes(&note).help(help.clone());
    unmet.into_iter().chain(lacking).map(add).collect()
}

/// The oldest cuDNN 9 that the program can use.
fn minimum(requested: &Requested) -> Option<Version> {
    requested.minimum.filter(|minimum| minimum.major == MAJOR)
}

fn requirements(minimum: Option<Version>, cuda_major: Option<u32>) -> Requirements {
    let mut requirements = Requirements::default();
    requirements.minimum = minimum;
    requirements.cuda_major = cuda_major;
    requirements
}

/// Another installation that has all that is requested, or the commands that install it.
fn fix(requested: &Requested, context: &Context, report: &InstallationReport, gpus: &[Gpu]) -> (Option<String>, Help) {
    let libraries = || requested.functions.iter().map(|function| function.library().library());
    let newer = requested.functions.iter().map(|function| function.since());
    let newer = newer.filter(|since| report.version.is_some_and(|version| version < *since));
    let minimum = minimum(requested).into_iter().chain(newer).max();
    let requirements = requirements(minimum, requested.cuda_major);
    let has_all = |other: &Installation| libraries().all(|library| other.check(library).is_ok());
    let other = context.search.candidates().find_map(|dir| check_dir(&dir, &requirements).ok().filter(has_all));
    if let Some(other) = other {
        let Installation { version, dir, origin, .. } = &other;
        let note = format!("{version} in {} meets the requirements ({origin})", dir.printable());
        return (Some(note), fix_commands::use_other(dir));
    }
    let is_jit = report.variant == Variant::JitOnly;
    let lacks = |library: Library| report.library(library).is_none() && (is_jit || report.missing.contains(&library));
    let full = libraries().any(lacks);
    let wanted = Wanted { minimum, cuda_major: requested.cuda_major, full };
    (None, fix_commands::meet(report, &wanted, gpus, context).unwrap_or_else(Help::new))
}

fn unmet(errors: &[ProbeError], report: &InstallationReport) -> Finding {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let message = format!("the installation in {} {}", report.dir.printable(), errors.join(", and "));
    // The last of several packages has overwritten the files of the others, and nothing states which one that was.
    let packages = report.package.iter().chain(&report.other_packages);
    let note = packages.map(|package| format!("installed as {package}, in {}", package.root.printable()));
    Finding::new(REQUIREMENT, message).notes(note)
}

fn lacks(function: Function, report: &InstallationReport) -> Option<Finding> {
    let version = report.version?;
    let (since, library) = (function.since(), function.library());
    let finding = if version < since {
        Finding::new(LACKS_FUNCTION, format!("{function} was added in cuDNN {since}, but found cuDNN {version}"))
    } else if report.library(library.library()).is_none() {
        let message = format!("{function} is in {library}, which this cuDNN ({}) does not include", report.variant);
        Finding::new(LACKS_FUNCTION, message)
    } else {
        return None;
    };
    Some(finding.note(format!("the loader uses the cuDNN in {}", report.dir.printable())))
}

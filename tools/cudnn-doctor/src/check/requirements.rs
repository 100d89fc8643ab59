//! The program's requirements, as the command line states them, against the installation that it would get.

use std::path::Path;

use cudnn_loader::Function;
use cudnn_probe::{Installation, InstallationReport, Library, ProbeError, Requirements, Variant, Version, check_dir};

use super::Requested;
use super::finding::{Finding, Help, LACKS_FUNCTION, REQUIREMENT};
use super::fix_commands::{self, Wanted};
use super::machine::Gpu;
use super::program::Call;
use crate::context::Context;
use crate::escape::Printable;

/// The major that this tool examines.
pub(super) const MAJOR: u32 = 9;

/// The most functions that a finding lists.
const MAX_FUNCTIONS: usize = 8;

/// All findings have one help, which meets all requirements. `called`: the program that finds this cuDNN, and what it calls.
pub(super) fn findings(
    requested: &Requested,
    called: Option<(&Path, &[Call])>,
    context: &Context,
    used: &Installation,
    report: &InstallationReport,
    gpus: &[Gpu],
) -> Vec<Finding> {
    // Each alone, so that the first that is not met does not hide the other one.
    let each = [requirements(minimum(requested), None), requirements(None, requested.cuda_major)];
    let errors: Vec<ProbeError> = each.iter().filter_map(|requirements| requirements.check(used).err()).collect();
    let unmet = (!errors.is_empty()).then(|| unmet(&errors, report));
    let lacking = requested.functions.iter().filter_map(|function| lacks(*function, report));
    let lacking: Vec<Finding> =
        lacking.chain(called.and_then(|(name, called)| lacks_called(name, called, report))).collect();
    if unmet.is_none() && lacking.is_empty() {
        return Vec::new();
    }
    let functions = requested
        .functions
        .iter()
        .chain(called.into_iter().flat_map(|(_, called)| called).map(|(function, _)| function));
    let functions: Vec<Function> = functions.copied().collect();
    let (note, help) = fix(requested, &functions, called.is_some(), context, report, gpus);
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
fn fix(
    requested: &Requested,
    functions: &[Function],
    is_of_program: bool,
    context: &Context,
    report: &InstallationReport,
    gpus: &[Gpu],
) -> (Option<String>, Help) {
    let libraries = || functions.iter().map(|function| function.library().library());
    let newer = functions.iter().map(|function| function.since());
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
    let wanted = Wanted { minimum, cuda_major: requested.cuda_major, full, is_of_program };
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

/// What a program calls, and is in libraries that this cuDNN does not have. What a later release added is reported already
/// (C083).
fn lacks_called(program: &Path, called: &[Call], report: &InstallationReport) -> Option<Finding> {
    let version = report.version?;
    let is_lacking =
        |(function, _): &&Call| function.since() <= version && report.library(function.library().library()).is_none();
    let lacking: Vec<&Call> = called.iter().filter(is_lacking).collect();
    let (name, variant) = (program.printable(), report.variant);
    let message = match lacking.as_slice() {
        [] => return None,
        [(function, _)] => {
            format!(
                "{name} calls {function}, which is in {}: this cuDNN ({variant}) does not include it",
                function.library()
            )
        }
        _ => format!(
            "{name} calls {} functions of libraries that this cuDNN ({variant}) does not include",
            lacking.len()
        ),
    };
    let list = lacking
        .iter()
        .take(MAX_FUNCTIONS)
        .map(|(function, file)| format!("{function}: in {}, called by {}", function.library(), file.printable()));
    let rest = (lacking.len() > MAX_FUNCTIONS).then(|| format!("and {} more", lacking.len() - MAX_FUNCTIONS));
    let dir = format!("the program finds the cuDNN in {}", report.dir.printable());
    Some(Finding::new(LACKS_FUNCTION, message).notes(list).notes(rest).note(dir))
}

//! The program's requirements, as the command line states them, against the installation that it would get.

use cudnn_loader::Function;
use cudnn_probe::{Installation, InstallationReport, ProbeError, Requirements};

use super::Requested;
use super::finding::{Finding, LACKS_FUNCTION, REQUIREMENT};
use super::fix_commands;
use crate::context::Context;
use crate::escape::Printable;

pub(super) fn findings(
    requested: &Requested,
    context: &Context,
    used: &Installation,
    report: &InstallationReport,
) -> Vec<Finding> {
    let mut requirements = Requirements::default();
    requirements.minimum = requested.minimum;
    requirements.cuda_major = requested.cuda_major;
    let unmet = requirements.check(used).err().map(|error| unmet(&error, context, &requirements, report));
    let lacking = requested.functions.iter().filter_map(|function| lacks(*function, report, context));
    unmet.into_iter().chain(lacking).collect()
}

fn unmet(error: &ProbeError, context: &Context, requirements: &Requirements, report: &InstallationReport) -> Finding {
    let mut finding = Finding::new(REQUIREMENT, format!("the installation in {} {error}", report.dir.printable()));
    if let Some(package) = &report.package {
        finding = finding.note(format!("installed as {package}, in {}", package.root.printable()));
    }
    match context.select(requirements).installation {
        Some(other) => finding
            .note(format!("{} in {} meets the requirements ({})", other.version, other.dir.printable(), other.origin))
            .help(fix_commands::use_other(&other.dir)),
        None => finding.help(fix_commands::upgrade(report, requirements.minimum, requirements.cuda_major, context)),
    }
}

fn lacks(function: Function, report: &InstallationReport, context: &Context) -> Option<Finding> {
    let version = report.version?;
    let (since, library) = (function.since(), function.library());
    let finding = if version < since {
        Finding::new(LACKS_FUNCTION, format!("{function} was added in cuDNN {since}, but found cuDNN {version}"))
            .help(fix_commands::upgrade(report, Some(since), None, context))
    } else if report.library(library.library()).is_none() {
        let message = format!("{function} is in {library}, which this cuDNN ({}) does not include", report.variant);
        Finding::new(LACKS_FUNCTION, message).help(fix_commands::install_full(report, context))
    } else {
        return None;
    };
    Some(finding.note(format!("the loader uses the cuDNN in {}", report.dir.printable())))
}

//! What the program needs, as the command line says it, held against what would be used.

use cudnn_loader::Function;
use cudnn_probe::{Installation, InstallationReport, ProbeError, Requirements, Search, select};

use super::Arguments;
use super::cure::wheel;
use super::finding::{Finding, LACKS, TOO_OLD};
use crate::output::Printable;
use crate::shell::quoted;

pub(super) fn findings(
    arguments: &Arguments,
    search: &Search,
    used: Option<&Installation>,
    report: &InstallationReport,
) -> Vec<Finding> {
    let mut requirements = Requirements::default();
    requirements.minimum = arguments.minimum;
    requirements.cuda_major = arguments.cuda;
    let refusal = used.and_then(|used| requirements.check(used).err());
    let mut found: Vec<Finding> =
        refusal.iter().map(|refusal| not_enough(refusal, search, &requirements, report)).collect();
    found.extend(arguments.function.iter().filter_map(|function| lacks(*function, report)));
    found
}

fn not_enough(
    refusal: &ProbeError,
    search: &Search,
    requirements: &Requirements,
    report: &InstallationReport,
) -> Finding {
    let mut finding = Finding::new(TOO_OLD, format!("the one in {} {refusal}", report.dir.printable()));
    if let Some(package) = &report.package {
        finding = finding.note(format!("installed as: {package}, in {}", package.root.printable()));
    }
    match select(search, requirements).installation {
        Some(other) => finding
            .note(format!("{} would do, and is found later: {}", other.version, other.origin))
            .help(format!("eval \"$(cudnn-doctor env {})\"", quoted(&other.dir.to_string_lossy()))),
        None => {
            let version = requirements.minimum.map_or(String::new(), |version| format!(">={version}"));
            let wheel = wheel(report, requirements.cuda_major);
            finding.help(format!("pip install '{wheel}{version}', in the same environment"))
        }
    }
}

fn lacks(function: Function, report: &InstallationReport) -> Option<Finding> {
    let version = report.version?;
    let (since, library) = (function.since(), function.library());
    let finding = if version < since {
        let wheel = wheel(report, None);
        let cure = format!("pip install '{wheel}>={since}', or a version of the program for {version}");
        Finding::new(LACKS, format!("{function} came with cuDNN {since}, and this is {version}")).help(cure)
    } else if report.part(library.library()).is_none() {
        let cuda = report.cuda_major.unwrap_or(12);
        let what = format!("{function} is in {library}, which this cuDNN has not: it is {}", report.variant);
        Finding::new(LACKS, what).help(format!("pip install nvidia-cudnn-cu{cuda}, the full cuDNN"))
    } else {
        return None;
    };
    Some(finding.note(format!("it would be used from {}", report.dir.printable())))
}

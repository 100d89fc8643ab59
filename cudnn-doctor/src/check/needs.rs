//! What the program needs, as the command line says it, held against what would be used.

use cudnn_loader::Function;
use cudnn_probe::{Installation, Manager, Refusal, Report, Requirements, Search, find};

use super::Arguments;
use super::finding::{Finding, LACKS, TOO_OLD};
use crate::output::Shown;

pub(super) fn findings(
    arguments: &Arguments,
    search: &Search,
    used: Option<&Installation>,
    report: &Report,
) -> Vec<Finding> {
    let mut requirements = Requirements::default();
    requirements.minimum = arguments.minimum;
    requirements.cuda_major = arguments.cuda;
    let refusal = used.and_then(|used| requirements.accept(used).err());
    let mut found: Vec<Finding> =
        refusal.iter().map(|refusal| not_enough(refusal, search, &requirements, report)).collect();
    found.extend(arguments.function.iter().filter_map(|function| lacks(*function, report)));
    found
}

fn not_enough(refusal: &Refusal, search: &Search, requirements: &Requirements, report: &Report) -> Finding {
    let mut finding = Finding::new(TOO_OLD, format!("the one in {} {refusal}", report.folder.shown()));
    if let Some(package) = &report.package {
        finding = finding.because(format!("installed as: {package}, in {}", package.root.shown()));
    }
    match find(search, requirements).installation {
        Some(other) => finding
            .because(format!("{} would do, and is found later: {}", other.version, other.origin))
            .cured_by(format!("eval \"$(cudnn-doctor env {})\"", other.folder.shown())),
        None => {
            let version = requirements.minimum.map_or(String::new(), |version| format!(">={version}"));
            let wheel = wheel(report, requirements.cuda_major);
            finding.cured_by(format!("pip install '{wheel}{version}', in the same environment"))
        }
    }
}

/// The wheel to install: the one that is there in another version, unless it is to be for another CUDA major.
fn wheel(report: &Report, cuda: Option<u32>) -> String {
    let here = report.package.as_ref().filter(|package| package.manager == Manager::Pip);
    match here.filter(|_| cuda.is_none() || cuda == report.cuda_major) {
        Some(package) => package.name.clone(),
        None => format!("nvidia-cudnn-cu{}", cuda.or(report.cuda_major).unwrap_or(12)),
    }
}

fn lacks(function: Function, report: &Report) -> Option<Finding> {
    let version = report.version?;
    let since = function.since();
    if version >= since {
        return None;
    }
    let wheel = wheel(report, None);
    Some(
        Finding::new(LACKS, format!("{function} came with cuDNN {since}, and this is {version}"))
            .because(format!("it would be used from {}", report.folder.shown()))
            .cured_by(format!("pip install '{wheel}>={since}', or a version of the program for {version}")),
    )
}

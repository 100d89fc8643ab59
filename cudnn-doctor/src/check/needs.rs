//! What the program needs, as the command line says it, held against what would be used.

use cudnn_loader::Function;
use cudnn_probe::{Installation, Refusal, Report, Requirements, Search, find};

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
            let cuda = requirements.cuda_major.or(report.cuda_major).unwrap_or(12);
            let version = requirements.minimum.map_or(String::new(), |version| format!(">={version}"));
            finding.cured_by(format!("pip install 'nvidia-cudnn-cu{cuda}{version}', in the same environment"))
        }
    }
}

fn lacks(function: Function, report: &Report) -> Option<Finding> {
    let version = report.version?;
    let since = function.since();
    if version >= since {
        return None;
    }
    let cuda = report.cuda_major.unwrap_or(12);
    Some(
        Finding::new(LACKS, format!("{function} came with cuDNN {since}, and this is {version}"))
            .because(format!("it would be used from {}", report.folder.shown()))
            .cured_by(format!(
                "pip install 'nvidia-cudnn-cu{cuda}>={since}', or a version of the program for {version}"
            )),
    )
}

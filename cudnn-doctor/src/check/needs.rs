//! What the program needs, as the command line says it, held against what would be used.

use cudnn_loader::Function;
use cudnn_probe::{Installation, Refusal, Report, Requirements, Search, find};

use super::Arguments;
use super::cure::wheel;
use super::finding::{Finding, LACKS, TOO_OLD};
use crate::output::Shown;
use crate::shell::quoted;

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
            .cured_by(format!("eval \"$(cudnn-doctor env {})\"", quoted(&other.folder.to_string_lossy()))),
        None => {
            let version = requirements.minimum.map_or(String::new(), |version| format!(">={version}"));
            let wheel = wheel(report, requirements.cuda_major);
            finding.cured_by(format!("pip install '{wheel}{version}', in the same environment"))
        }
    }
}

fn lacks(function: Function, report: &Report) -> Option<Finding> {
    let version = report.version?;
    let (since, library) = (function.since(), function.library());
    let finding = if version < since {
        let wheel = wheel(report, None);
        let cure = format!("pip install '{wheel}>={since}', or a version of the program for {version}");
        Finding::new(LACKS, format!("{function} came with cuDNN {since}, and this is {version}")).cured_by(cure)
    } else if report.part(library.library()).is_none() {
        let cuda = report.cuda_major.unwrap_or(12);
        let what = format!("{function} is in {library}, which this cuDNN has not: it is {}", report.flavour);
        Finding::new(LACKS, what).cured_by(format!("pip install nvidia-cudnn-cu{cuda}, the full cuDNN"))
    } else {
        return None;
    };
    Some(finding.because(format!("it would be used from {}", report.folder.shown())))
}

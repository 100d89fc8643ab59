//! Lists the checks: each is a function from the subject to findings.

use cudnn_probe::Os;

use super::finding::*;
use super::subject::Subject;
use super::{
    dlls, drop_in, installation, ld_so, lost_python, other_major, program, requirements, search_path, variables,
};

/// A check.
pub(super) struct Check {
    /// The kinds of finding that it can report. Kinds that one look at the same files decides share a check.
    pub(super) kinds: &'static [FindingKind],
    run: fn(&Subject) -> Vec<Finding>,
}

impl Check {
    pub(super) fn findings(&self, subject: &Subject) -> Vec<Finding> {
        let findings = (self.run)(subject);
        let is_listed = |finding: &Finding| self.kinds.iter().any(|kind| kind.code == finding.kind.code);
        debug_assert!(findings.iter().all(is_listed), "{findings:?}");
        findings
    }
}

/// All checks. Findings of one kind are reported in this order.
pub(super) const CHECKS: &[Check] = &[
    Check { kinds: &[RELATIVE_PATH], run: |_| search_path::relative_path().into_iter().collect() },
    Check {
        kinds: &[
            PROGRAM_UNREADABLE,
            PROGRAM_DEPENDENCY,
            PROGRAM_FUNCTION,
            PROGRAM_NO_CUDNN,
            PROGRAM_OPENS,
            PROGRAM_UNLINKED,
        ],
        run: |subject| subject.program.findings.clone(),
    },
    Check { kinds: &[REJECTED], run: |subject| subject.selected.rejections() },
    Check { kinds: &[NO_CUDNN], run: no_cudnn },
    Check {
        kinds: &[SEVERAL],
        run: |subject| subject.report().and_then(|used| subject.selected.several(used)).into_iter().collect(),
    },
    Check { kinds: &[REQUIREMENT, LACKS_FUNCTION], run: requirements },
    Check {
        kinds: &[
            INCOMPLETE,
            UNUSABLE_LIBRARY,
            MIXED_VERSIONS,
            MIXED_CUDA,
            KNOWN_ISSUE,
            OVERLAPPING_PACKAGES,
            NOT_AS_INSTALLED,
            NOT_VERIFIED,
            OLD_GPU,
            NO_KERNELS,
        ],
        run: installation,
    },
    Check { kinds: &[DROP_IN_REPLACED, STALE_SHIM, OLD_DROP_IN], run: drop_in },
    Check {
        kinds: &[NOT_ON_PATH, OTHER_ON_PATH, LD_SO_MIX, LINKED_MIX, NO_CUBLAS, NO_NVRTC, NO_BUILTINS, REQUIREMENT],
        run: search,
    },
    Check { kinds: &[INCOMPLETE, UNUSABLE_LIBRARY, MIXED_VERSIONS, MIXED_CUDA], run: of_linked_programs },
    Check {
        kinds: &[
            CRASHED,
            NOT_LOADED,
            CHECK_FAILED,
            NO_CONVOLUTION,
            NO_MEMORY,
            NOT_TESTED,
            DRIVER_CRASHED,
            NO_DRIVER,
            NO_CUBLAS,
            NO_NVRTC,
        ],
        run: load,
    },
    Check { kinds: &[OLD_DRIVER], run: old_driver },
    Check { kinds: &[NO_DRIVER, NOT_TESTED], run: driver },
    Check {
        kinds: &[REQUIREMENT],
        run: |subject| other_major::finding(subject.requested, subject.context).into_iter().collect(),
    },
    Check { kinds: &[NO_EFFECT], run: |_| variables::findings() },
    Check { kinds: &[LOST_PYTHON], run: |subject| lost_python::finding(subject.context).into_iter().collect() },
    Check {
        kinds: &[
            FRAMEWORK_NO_CUDNN,
            FRAMEWORK_OLD_CUDNN,
            FRAMEWORK_MIX,
            FRAMEWORK_PIN,
            FRAMEWORK_NO_CUDA,
            FRAMEWORK_DRIVER,
            FRAMEWORK_OLD_GPU,
            FRAMEWORK_PTX,
            FRAMEWORKS_TOGETHER,
            FRAMEWORK_CPU_ONLY,
            PACKAGES_UNREADABLE,
            FRAMEWORK_OPTIONAL_CUDNN,
            FRAMEWORK_DAMAGED,
            FRAMEWORK_DAMAGED_CUDNN,
            FRAMEWORK_HALF_SEARCHED,
        ],
        run: |subject| subject.judged.iter().flat_map(|judged| judged.findings.clone()).collect(),
    },
    Check {
        kinds: &[FRAMEWORK_FAILED, FRAMEWORK_ON_CPU, FRAMEWORK_ELSEWHERE, NOT_TESTED],
        run: |subject| subject.runs.iter().filter_map(|run| run.finding.clone()).collect(),
    },
];

/// The findings, as findings about the installation that is used.
fn of_used(subject: &Subject, findings: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    let dir = subject.report().map(|report| report.dir.clone());
    findings.into_iter().map(|finding| Finding { installation: dir.clone(), ..finding }).collect()
}

fn no_cudnn(subject: &Subject) -> Vec<Finding> {
    // No cuDNN 9 would help a program for another major.
    if subject.used.is_some() || other_major::finding(subject.requested, subject.context).is_some() {
        return Vec::new();
    }
    subject.qualified(vec![subject.selected.no_cudnn(subject.context, &subject.machine)])
}

fn requirements(subject: &Subject) -> Vec<Finding> {
    let Some((used, report)) = &subject.used else { return Vec::new() };
    let Subject { requested, context, machine, .. } = subject;
    of_used(subject, requirements::findings(requested, subject.called(), context, used, report, &machine.gpus))
}

fn installation(subject: &Subject) -> Vec<Finding> {
    let Some(report) = subject.report() else { return Vec::new() };
    let findings = installation::findings(report, &subject.machine, subject.context, subject.requested.verify);
    of_used(subject, findings)
}

fn drop_in(subject: &Subject) -> Vec<Finding> {
    of_used(subject, subject.report().and_then(|report| drop_in::finding(report, subject.context)))
}

/// Does the system find the libraries of this cuDNN, and those that it opens?
fn search(subject: &Subject) -> Vec<Finding> {
    let (context, loaded) = (subject.context, &subject.program.loaded);
    let Some(report) = subject.report() else { return Vec::new() };
    let findings = match (subject.is_of_program(), Os::HOST) {
        (true, Os::Windows) => dlls::companions(report, context, loaded),
        (false, Os::Windows) => dlls::findings(report, context),
        (true, _) => {
            let companions = ld_so::companions(report, context, loaded);
            companions.into_iter().chain(program::other_cuda(loaded, report)).collect()
        }
        (false, _) => ld_so::findings(report, context, &subject.users()),
    };
    of_used(subject, findings)
}

/// The cuDNN that programs get which load it by its name, if that is another one.
fn of_linked_programs(subject: &Subject) -> Vec<Finding> {
    let Some(report) = subject.report().filter(|_| !subject.is_of_program()) else { return Vec::new() };
    match Os::HOST {
        Os::Windows => dlls::of_linked_programs(report, subject.context),
        _ => ld_so::of_linked_programs(report, subject.context),
    }
}

fn load(subject: &Subject) -> Vec<Finding> {
    let Some(report) = subject.report() else { return Vec::new() };
    let unusable = subject.load.unusable_cuda.iter();
    let unusable = unusable.filter_map(|unusable| ld_so::unusable_companion(report, subject.context, unusable));
    of_used(subject, subject.load.findings.iter().cloned().chain(unusable))
}

fn old_driver(subject: &Subject) -> Vec<Finding> {
    let finding = |report| installation::old_driver(report, &subject.machine, subject.context);
    of_used(subject, subject.report().and_then(finding))
}

/// The driver, unless the load test has asked it, or has failed as the query of the driver did.
fn driver(subject: &Subject) -> Vec<Finding> {
    let is_known = |finding: &Finding| {
        finding.is_of_doctor() || [NO_DRIVER.code, DRIVER_CRASHED.code].contains(&finding.kind.code)
    };
    if subject.load.findings.iter().any(is_known) {
        return Vec::new();
    }
    subject.qualified(subject.machine.findings().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_can_report_each_kind() {
        for kind in FINDINGS {
            let is_listed = CHECKS.iter().any(|check| check.kinds.iter().any(|listed| listed.code == kind.code));
            assert!(is_listed, "{}", kind.code);
        }
    }
}

//! Lists the checks: each is a function from the subject to findings.

use cudnn_probe::Os;

use super::finding::*;
use super::observations::Observations;
use super::{
    dlls, drop_in, installation, ld_so, lost_python, other_major, program, requirements, search_path, variables,
};

/// A check.
pub(super) struct Check {
    /// The kinds of finding that it can report. Kinds that one look at the same files decides share a check.
    pub(super) kinds: &'static [FindingKind],
    run: fn(&Observations) -> Vec<Finding>,
}

impl Check {
    pub(super) fn findings(&self, observations: &Observations) -> Vec<Finding> {
        let findings = (self.run)(observations);
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
        run: |observations| observations.program.findings.clone(),
    },
    Check { kinds: &[REJECTED], run: |observations| observations.selected.rejections.clone() },
    Check { kinds: &[NO_CUDNN], run: no_cudnn },
    Check {
        kinds: &[SEVERAL],
        run: |observations| {
            observations
                .report()
                .and_then(|used| observations.selected.find_other_installations(used))
                .into_iter()
                .collect()
        },
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
        run: |observations| other_major::finding(observations.requested, observations.context).into_iter().collect(),
    },
    Check { kinds: &[NO_EFFECT], run: |_| variables::findings() },
    Check {
        kinds: &[LOST_PYTHON],
        run: |observations| lost_python::finding(observations.context).into_iter().collect(),
    },
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
        run: |observations| observations.frameworks.iter().flat_map(|report| report.findings.clone()).collect(),
    },
    Check {
        kinds: &[FRAMEWORK_FAILED, FRAMEWORK_ON_CPU, FRAMEWORK_ELSEWHERE, NOT_TESTED],
        run: |observations| observations.runs.iter().filter_map(|run| run.finding.clone()).collect(),
    },
];

/// The findings, as findings about the installation that is used.
fn of_used(observations: &Observations, findings: impl IntoIterator<Item = Finding>) -> Vec<Finding> {
    let dir = observations.report().map(|report| report.dir.clone());
    findings.into_iter().map(|finding| Finding { installation: dir.clone(), ..finding }).collect()
}

fn no_cudnn(observations: &Observations) -> Vec<Finding> {
    // No cuDNN 9 would help a program for another major.
    if observations.used.is_some() || other_major::finding(observations.requested, observations.context).is_some() {
        return Vec::new();
    }
    observations.qualified(vec![observations.selected.no_cudnn(observations.context, &observations.machine)])
}

fn requirements(observations: &Observations) -> Vec<Finding> {
    let Some((used, report)) = &observations.used else { return Vec::new() };
    let Observations { requested, context, machine, .. } = observations;
    of_used(
        observations,
        requirements::findings(requested, observations.called(), context, used, report, &machine.gpus),
    )
}

fn installation(observations: &Observations) -> Vec<Finding> {
    let Some(report) = observations.report() else { return Vec::new() };
    let findings =
        installation::findings(report, &observations.machine, observations.context, observations.requested.verify);
    of_used(observations, findings)
}

fn drop_in(observations: &Observations) -> Vec<Finding> {
    of_used(observations, observations.report().and_then(|report| drop_in::finding(report, observations.context)))
}

/// Does the system find the libraries of this cuDNN, and those that it opens?
fn search(observations: &Observations) -> Vec<Finding> {
    let (context, loaded) = (observations.context, &observations.program.loaded);
    let Some(report) = observations.report() else { return Vec::new() };
    let findings = match (observations.is_of_program(), Os::HOST) {
        (true, Os::Windows) => dlls::companions(report, context, loaded),
        (false, Os::Windows) => dlls::findings(report, context),
        (true, _) => {
            let companions = ld_so::companions(report, context, loaded);
            companions.into_iter().chain(program::other_cuda(loaded, report)).collect()
        }
        (false, _) => ld_so::findings(report, context, &observations.users()),
    };
    of_used(observations, findings)
}

/// The cuDNN that programs get which load it by its name, if that is another one.
fn of_linked_programs(observations: &Observations) -> Vec<Finding> {
    let Some(report) = observations.report().filter(|_| !observations.is_of_program()) else { return Vec::new() };
    match Os::HOST {
        Os::Windows => dlls::of_linked_programs(report, observations.context),
        _ => ld_so::of_linked_programs(report, observations.context),
    }
}

fn load(observations: &Observations) -> Vec<Finding> {
    let Some(report) = observations.report() else { return Vec::new() };
    let unusable = observations.load.unusable_cuda.iter();
    let unusable = unusable.filter_map(|unusable| ld_so::unusable_companion(report, observations.context, unusable));
    of_used(observations, observations.load.findings.iter().cloned().chain(unusable))
}

fn old_driver(observations: &Observations) -> Vec<Finding> {
    let finding = |report| installation::old_driver(report, &observations.machine, observations.context);
    of_used(observations, observations.report().and_then(finding))
}

/// The driver, unless the load test has asked it, or has failed as the query of the driver did.
fn driver(observations: &Observations) -> Vec<Finding> {
    let is_known = |finding: &Finding| {
        finding.is_of_doctor() || [NO_DRIVER.code, DRIVER_CRASHED.code].contains(&finding.kind.code)
    };
    if observations.load.findings.iter().any(is_known) {
        return Vec::new();
    }
    observations.qualified(observations.machine.findings().into_iter().collect())
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

//! Lists the checks and runs them.

use std::cmp::Reverse;

use cudnn_frameworks::installation::InstallationReport;

use super::finding::{DRIVER_CRASHED, Finding, NO_DRIVER};
use super::observations::Observations;
use super::{
    by_name, companions, drop_in, foreign_library, frameworks, installation, kernels, known_issues, lost_python,
    other_major, program, variables,
};
use crate::remedy::Action;

type Check = fn(&Observations<'_>) -> Vec<Finding>;

/// Findings with the same code are reported in this order.
const CHECKS: &[Check] = &[
    load,
    driver,
    |all| all.check_used(|report| installation::old_driver(report, &all.machine, all.context)),
    no_cudnn,
    |all| all.selected.rejections.clone(),
    |all| all.check_used(installation::incomplete),
    search,
    |all| if all.is_of_program() { Vec::new() } else { by_name::check_linked_programs(all.report(), all.context) },
    |all| all.check_used(installation::unusable),
    |all| all.check_used(mixed),
    |all| all.report().and_then(|used| all.selected.find_other_installations(used)).into_iter().collect(),
    |all| all.check_used(|report| known_issues::findings(report, &all.release_facts, &all.machine.gpus, all.context)),
    requirements,
    |all| other_major::finding(all.requested, all.context).into_iter().collect(),
    |all| all.check_used(|report| installation::overlapping_packages(report, &all.machine)),
    |all| all.check_used(|report| installation::not_as_installed(report, all.requested.verify)),
    |all| all.check_used(|report| if all.requested.verify { installation::not_verified(report) } else { None }),
    |_| variables::search_path().into_iter().collect(),
    |all| lost_python::finding(all.context).into_iter().collect(),
    old_gpu,
    no_kernels,
    |all| all.runs.iter().filter_map(|run| run.finding.clone()).collect(),
    |_| variables::findings(),
    |all| {
        all.frameworks.iter().flat_map(|survey| frameworks::findings(survey, &all.machine, &all.context.host)).collect()
    },
    |all| all.program.findings(),
    |all| all.check_used(|report| drop_in::finding(report, all.context)),
];

/// Runs all checks, and returns the requested findings, most severe first.
pub fn findings(observations: &Observations<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(observations)).collect();
    findings.retain(|finding| observations.requested.is_reported(finding));
    findings.sort_by_key(|finding| (Reverse(finding.kind.severity), finding.kind.code));
    if let Some(lost) = observations.context.lost_environment() {
        let remedies = findings.iter_mut().filter_map(|finding| finding.remedy.as_mut());
        let others = observations.context.search.environments();
        let is_bypassing = |action: &Action| lost.is_bypassed_by(action, &others);
        let bypassing = remedies.filter(|remedy| remedy.actions.iter().any(is_bypassing));
        bypassing.for_each(|remedy| *remedy = lost.remedy());
    }
    findings
}

fn no_cudnn(observations: &Observations<'_>) -> Vec<Finding> {
    // Installing cuDNN 9 does not help a program built for a different major.
    if observations.used.is_some()
        || observations.program.other_major().is_some()
        || observations.program.is_python_script()
        || other_major::finding(observations.requested, observations.context).is_some()
    {
        return Vec::new();
    }
    if let Some(shim) = observations.program.lone_shim() {
        return vec![program::separated(shim)];
    }
    let Observations { context, machine, requested, .. } = observations;
    observations.qualified(vec![observations.selected.no_cudnn_finding(context, machine, requested.cuda_major)])
}

fn requirements(observations: &Observations<'_>) -> Vec<Finding> {
    let Some((used, _)) = &observations.used else { return Vec::new() };
    let Observations { requested, context, machine, .. } = observations;
    observations.check_used(|report| {
        super::requirements::findings(requested, observations.called(), context, used, report, &machine.gpus)
    })
}

fn mixed(report: &InstallationReport) -> Vec<Finding> {
    let mut found = installation::mixed(report);
    found.extend(found.is_empty().then(|| installation::several_releases(report)).flatten());
    found
}

fn old_gpu(observations: &Observations<'_>) -> Vec<Finding> {
    observations.check_used(|report| {
        let old = observations.machine.gpus.iter().filter(|gpu| installation::is_too_old(report, gpu));
        old.filter_map(|gpu| installation::old_gpu(report, gpu, observations.context)).collect::<Vec<_>>()
    })
}

fn no_kernels(observations: &Observations<'_>) -> Vec<Finding> {
    let machine = &observations.machine;
    observations.check_used(|report| {
        let gpus = machine.gpus.iter().filter(|gpu| !installation::is_too_old(report, gpu));
        kernels::findings(report, gpus, machine, observations.context)
    })
}

fn search(observations: &Observations<'_>) -> Vec<Finding> {
    let (context, loaded) = (observations.context, &observations.program.loaded);
    observations.check_used(|report| {
        if !observations.is_of_program() {
            return by_name::findings(report, context, &observations.users());
        }
        let companions = companions::findings(report, context, loaded).into_iter();
        companions.chain(program::other_cuda(loaded, report)).collect()
    })
}

fn load(observations: &Observations<'_>) -> Vec<Finding> {
    observations.check_used(|report| {
        let unusable = observations.load.unusable_cuda.iter();
        let unusable = unusable.filter_map(|unusable| companions::unusable(report, observations.context, unusable));
        // The load test also reports what this check finds in the files.
        let is_tested = observations.requested.is_load_needed();
        let by_files = (!is_tested).then(|| foreign_library::too_old(report, observations.context)).flatten();
        observations.load.findings.iter().cloned().chain(unusable).chain(by_files).collect::<Vec<_>>()
    })
}

/// Checks the driver, unless the load test has already reported a failure of the driver or of the doctor.
fn driver(observations: &Observations<'_>) -> Vec<Finding> {
    let is_known = |finding: &Finding| {
        finding.is_of_doctor() || [NO_DRIVER.code, DRIVER_CRASHED.code].contains(&finding.kind.code)
    };
    if observations.load.findings.iter().any(is_known) {
        return Vec::new();
    }
    observations.qualified(observations.machine.findings().into_iter().collect())
}

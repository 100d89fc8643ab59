//! Provides the checks behind the table of findings.

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::Os;

use super::finding::{DRIVER_CRASHED, FINDINGS, Finding, FindingKind, NO_DRIVER};
use super::observations::Observations;
use super::{dlls, installation, kernels, ld_so};

/// Runs each check of the requested findings once, and returns the findings in the order of the table.
pub(super) fn findings(observations: &Observations<'_>) -> Vec<Finding> {
    let is_requested = |kind: &FindingKind| observations.requested.includes(kind);
    let mut finished = Vec::new();
    let mut findings = Vec::new();
    for check in FINDINGS.iter().filter(|kind| is_requested(kind)).flat_map(|kind| kind.checks) {
        if !finished.contains(&check.name) {
            finished.push(check.name);
            let found = (check.run)(observations);
            debug_assert!(found.iter().all(|finding| is_listed(finding, check.name)), "{}: {found:?}", check.name);
            findings.extend(found);
        }
    }
    findings.retain(|finding| is_requested(&finding.kind));
    findings.sort_by_key(|finding| FINDINGS.iter().position(|kind| kind.code == finding.kind.code));
    findings
}

/// Returns whether the table lists this check for the kind of the finding.
fn is_listed(finding: &Finding, name: &str) -> bool {
    finding.kind.checks.iter().any(|check| check.name == name)
}

/// Runs a check on the selected installation and adds its directory to the findings.
fn of_used<F: IntoIterator<Item = Finding>>(
    observations: &Observations<'_>,
    check: impl FnOnce(&InstallationReport) -> F,
) -> Vec<Finding> {
    let Some(report) = observations.report() else { return Vec::new() };
    let name_dir = |finding| Finding { installation: Some(report.dir.clone()), ..finding };
    check(report).into_iter().map(name_dir).collect()
}

pub(super) fn relative_path(observations: &Observations<'_>) -> Vec<Finding> {
    observations.search_path.finding().into_iter().collect()
}

pub(super) fn variables(observations: &Observations<'_>) -> Vec<Finding> {
    observations.variables.findings()
}

pub(super) fn lost_python(observations: &Observations<'_>) -> Vec<Finding> {
    super::lost_python::finding(observations.context).into_iter().collect()
}

pub(super) fn program(observations: &Observations<'_>) -> Vec<Finding> {
    observations.program.findings()
}

pub(super) fn rejected(observations: &Observations<'_>) -> Vec<Finding> {
    observations.selected.rejections(observations.context)
}

pub(super) fn no_cudnn(observations: &Observations<'_>) -> Vec<Finding> {
    // Installing cuDNN 9 does not help a program built for another major.
    if observations.used.is_some()
        || super::other_major::finding(observations.requested, observations.context).is_some()
    {
        return Vec::new();
    }
    observations.qualified(vec![observations.selected.no_cudnn_finding(observations.context, &observations.machine)])
}

pub(super) fn other_installations(observations: &Observations<'_>) -> Vec<Finding> {
    let find = |used| observations.selected.find_other_installations(used);
    observations.report().and_then(find).into_iter().collect()
}

pub(super) fn requirements(observations: &Observations<'_>) -> Vec<Finding> {
    let Some((used, _)) = &observations.used else { return Vec::new() };
    let Observations { requested, context, machine, .. } = observations;
    of_used(observations, |report| {
        super::requirements::findings(requested, observations.called(), context, used, report, &machine.gpus)
    })
}

pub(super) fn other_major(observations: &Observations<'_>) -> Vec<Finding> {
    super::other_major::finding(observations.requested, observations.context).into_iter().collect()
}

pub(super) fn incomplete(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, installation::incomplete)
}

pub(super) fn unusable(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, installation::unusable)
}

pub(super) fn mixed(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, installation::mixed)
}

pub(super) fn not_as_installed(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| installation::not_as_installed(report, observations.requested.verify))
}

pub(super) fn not_verified(observations: &Observations<'_>) -> Vec<Finding> {
    if observations.requested.verify { of_used(observations, installation::not_verified) } else { Vec::new() }
}

pub(super) fn overlapping_packages(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| installation::overlapping_packages(report, &observations.machine))
}

pub(super) fn known_issues(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| installation::known_issues(report, &observations.machine.gpus, observations.context))
}

pub(super) fn old_driver(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| installation::old_driver(report, &observations.machine, observations.context))
}

pub(super) fn old_gpu(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| {
        let old = observations.machine.gpus.iter().filter(|gpu| installation::is_too_old(report, gpu));
        old.filter_map(|gpu| installation::old_gpu(report, gpu, observations.context)).collect::<Vec<_>>()
    })
}

pub(super) fn no_kernels(observations: &Observations<'_>) -> Vec<Finding> {
    let machine = &observations.machine;
    of_used(observations, |report| {
        let gpus = machine.gpus.iter().filter(|gpu| !installation::is_too_old(report, gpu));
        kernels::findings(report, gpus, machine, observations.context)
    })
}

pub(super) fn drop_in(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| super::drop_in::finding(report, observations.context))
}

/// Checks whether the system finds this cuDNN, and the libraries it opens at run time.
pub(super) fn search(observations: &Observations<'_>) -> Vec<Finding> {
    let (context, loaded) = (observations.context, &observations.program.loaded);
    of_used(observations, |report| match (observations.is_of_program(), Os::HOST) {
        (true, Os::Windows) => dlls::companions(report, context, loaded),
        (false, Os::Windows) => dlls::findings(report, context),
        (true, _) => {
            let companions = ld_so::companions(report, context, loaded);
            companions.into_iter().chain(super::program::other_cuda(loaded, report)).collect()
        }
        (false, _) => ld_so::findings(report, context, &observations.users()),
    })
}

/// Checks the cuDNN found by programs that load it by name, if that differs from the selected installation.
pub(super) fn linked_programs(observations: &Observations<'_>) -> Vec<Finding> {
    let Some(report) = observations.report().filter(|_| !observations.is_of_program()) else { return Vec::new() };
    match Os::HOST {
        Os::Windows => dlls::of_linked_programs(report, observations.context),
        _ => ld_so::of_linked_programs(report, observations.context),
    }
}

pub(super) fn load(observations: &Observations<'_>) -> Vec<Finding> {
    of_used(observations, |report| {
        let unusable = observations.load.unusable_cuda.iter();
        let unusable =
            unusable.filter_map(|unusable| ld_so::unusable_companion(report, observations.context, unusable));
        observations.load.findings.iter().cloned().chain(unusable).collect::<Vec<_>>()
    })
}

/// Checks the driver, unless the load test already covered it or failed in the same way.
pub(super) fn driver(observations: &Observations<'_>) -> Vec<Finding> {
    let is_known = |finding: &Finding| {
        finding.is_of_doctor() || [NO_DRIVER.code, DRIVER_CRASHED.code].contains(&finding.kind.code)
    };
    if observations.load.findings.iter().any(is_known) {
        return Vec::new();
    }
    observations.qualified(observations.machine.findings().into_iter().collect())
}

pub(super) fn frameworks(observations: &Observations<'_>) -> Vec<Finding> {
    let Observations { context, machine, .. } = observations;
    observations.frameworks.iter().flat_map(|facts| facts.findings(machine, &context.host)).collect()
}

pub(super) fn framework_runs(observations: &Observations<'_>) -> Vec<Finding> {
    observations.runs.iter().filter_map(|run| run.finding.clone()).collect()
}

#[cfg(all(test, unix))]
pub(crate) mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use cudnn_probe::facts::Facts;

    use super::*;
    use crate::check::Requested;
    use crate::context::Context;
    use crate::subprocess::Timeouts;

    /// Returns the system queries that a check makes when run on these saved facts.
    pub(crate) fn questions_of_checks(
        context: &Context,
        requested: &Requested,
        timeouts: &Timeouts,
        facts: &Facts,
    ) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let observations = Observations::read(context, requested, timeouts);
        let checks = FINDINGS.iter().flat_map(|kind| kind.checks);
        let asked = checks.map(|check| {
            facts.take_asked();
            (check.run)(&observations);
            (check.name, facts.take_asked())
        });
        asked.collect()
    }
}

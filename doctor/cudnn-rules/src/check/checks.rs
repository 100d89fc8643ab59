//! Provides the checks behind the table of findings.

use cudnn_frameworks::installation::InstallationReport;

use super::finding::{DRIVER_CRASHED, Finding, NO_DRIVER};
use super::observations::Observations;
use super::{by_name, companions, installation, kernels, known_issues, symbol_versions};

/// The functions that derive findings from the observations. Findings with the same code are reported in this order.
const CHECKS: &[fn(&Observations<'_>) -> Vec<Finding>] = &[
    load,
    driver,
    old_driver,
    no_cudnn,
    rejected,
    incomplete,
    search,
    linked_programs,
    unusable,
    mixed,
    other_installations,
    known_issues,
    requirements,
    other_major,
    overlapping_packages,
    not_as_installed,
    not_verified,
    relative_path,
    lost_python,
    old_gpu,
    no_kernels,
    framework_runs,
    variables,
    frameworks,
    program,
    drop_in,
];

/// Runs all checks, and returns the requested findings in the order of their codes.
pub fn findings(observations: &Observations<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(observations)).collect();
    findings.retain(|finding| observations.requested.includes(&finding.kind));
    findings.sort_by_key(|finding| finding.kind.code);
    findings
}

/// Runs a check on the selected installation and adds its directory to the findings.
fn check_used<F: IntoIterator<Item = Finding>>(
    observations: &Observations<'_>,
    check: impl FnOnce(&InstallationReport) -> F,
) -> Vec<Finding> {
    let Some(report) = observations.report() else { return Vec::new() };
    let name_dir = |finding| Finding { installation: Some(report.dir.clone()), ..finding };
    check(report).into_iter().map(name_dir).collect()
}

fn relative_path(observations: &Observations<'_>) -> Vec<Finding> {
    observations.search_path.finding().into_iter().collect()
}

fn variables(observations: &Observations<'_>) -> Vec<Finding> {
    observations.variables.findings()
}

fn lost_python(observations: &Observations<'_>) -> Vec<Finding> {
    super::lost_python::finding(observations.context).into_iter().collect()
}

fn program(observations: &Observations<'_>) -> Vec<Finding> {
    observations.program.findings()
}

fn rejected(observations: &Observations<'_>) -> Vec<Finding> {
    observations.selected.rejections(observations.context)
}

fn no_cudnn(observations: &Observations<'_>) -> Vec<Finding> {
    // Installing cuDNN 9 does not help a program built for a different major.
    if observations.used.is_some()
        || observations.program.other_major().is_some()
        || observations.program.is_python_script()
        || super::other_major::finding(observations.requested, observations.context).is_some()
    {
        return Vec::new();
    }
    if let Some(shim) = observations.program.lone_shim() {
        return vec![super::program::separated(shim)];
    }
    let Observations { context, machine, requested, .. } = observations;
    observations.qualified(vec![observations.selected.no_cudnn_finding(context, machine, requested.cuda_major)])
}

fn other_installations(observations: &Observations<'_>) -> Vec<Finding> {
    let find = |used| observations.selected.find_other_installations(used);
    observations.report().and_then(find).into_iter().collect()
}

fn requirements(observations: &Observations<'_>) -> Vec<Finding> {
    let Some((used, _)) = &observations.used else { return Vec::new() };
    let Observations { requested, context, machine, .. } = observations;
    check_used(observations, |report| {
        super::requirements::findings(requested, observations.called(), context, used, report, &machine.gpus)
    })
}

fn other_major(observations: &Observations<'_>) -> Vec<Finding> {
    super::other_major::finding(observations.requested, observations.context).into_iter().collect()
}

fn incomplete(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, installation::incomplete)
}

fn unusable(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, installation::unusable)
}

fn mixed(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| {
        let mut found = installation::mixed(report);
        found.extend(found.is_empty().then(|| installation::several_releases(report)).flatten());
        found
    })
}

fn not_as_installed(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| installation::not_as_installed(report, observations.requested.verify))
}

fn not_verified(observations: &Observations<'_>) -> Vec<Finding> {
    if observations.requested.verify { check_used(observations, installation::not_verified) } else { Vec::new() }
}

fn overlapping_packages(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| installation::overlapping_packages(report, &observations.machine))
}

fn known_issues(observations: &Observations<'_>) -> Vec<Finding> {
    let Observations { machine, release_facts, context, .. } = observations;
    check_used(observations, |report| known_issues::findings(report, release_facts, &machine.gpus, context))
}

fn old_driver(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| installation::old_driver(report, &observations.machine, observations.context))
}

fn old_gpu(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| {
        let old = observations.machine.gpus.iter().filter(|gpu| installation::is_too_old(report, gpu));
        old.filter_map(|gpu| installation::old_gpu(report, gpu, observations.context)).collect::<Vec<_>>()
    })
}

fn no_kernels(observations: &Observations<'_>) -> Vec<Finding> {
    let machine = &observations.machine;
    check_used(observations, |report| {
        let gpus = machine.gpus.iter().filter(|gpu| !installation::is_too_old(report, gpu));
        kernels::findings(report, gpus, machine, observations.context)
    })
}

fn drop_in(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| super::drop_in::finding(report, observations.context))
}

/// Checks whether the system finds this cuDNN, and the libraries it opens at run time.
fn search(observations: &Observations<'_>) -> Vec<Finding> {
    let (context, loaded) = (observations.context, &observations.program.loaded);
    check_used(observations, |report| {
        if !observations.is_of_program() {
            return by_name::findings(report, context, &observations.users());
        }
        let companions = companions::findings(report, context, loaded).into_iter();
        companions.chain(super::program::other_cuda(loaded, report)).collect()
    })
}

/// Checks the cuDNN found by programs that load it by name, if that differs from the selected installation.
fn linked_programs(observations: &Observations<'_>) -> Vec<Finding> {
    if observations.is_of_program() {
        return Vec::new();
    }
    by_name::check_linked_programs(observations.report(), observations.context)
}

fn load(observations: &Observations<'_>) -> Vec<Finding> {
    check_used(observations, |report| {
        let unusable = observations.load.unusable_cuda.iter();
        let unusable = unusable.filter_map(|unusable| companions::unusable(report, observations.context, unusable));
        // Without the load test, the files show some of what it reports.
        let is_tested = observations.requested.is_load_needed();
        let by_files = (!is_tested).then(|| symbol_versions::finding(report, observations.context)).flatten();
        observations.load.findings.iter().cloned().chain(unusable).chain(by_files).collect::<Vec<_>>()
    })
}

/// Checks the driver, unless the load test already covered it or failed in the same way.
fn driver(observations: &Observations<'_>) -> Vec<Finding> {
    let is_known = |finding: &Finding| {
        finding.is_of_doctor() || [NO_DRIVER.code, DRIVER_CRASHED.code].contains(&finding.kind.code)
    };
    if observations.load.findings.iter().any(is_known) {
        return Vec::new();
    }
    observations.qualified(observations.machine.findings().into_iter().collect())
}

fn frameworks(observations: &Observations<'_>) -> Vec<Finding> {
    let Observations { context, machine, .. } = observations;
    observations.frameworks.iter().flat_map(|facts| facts.findings(machine, &context.host)).collect()
}

fn framework_runs(observations: &Observations<'_>) -> Vec<Finding> {
    observations.runs.iter().filter_map(|run| run.finding.clone()).collect()
}

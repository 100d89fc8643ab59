//! Makes a diagnosis: observations, findings and a plan.

use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{InstallationReport, Package};
use cudnn_probe::Origin;

use super::finding::Finding;
use super::machine::Machine;
use super::observations::Observations;
use super::requested::Requested;
use super::{checks, installation};
use crate::context::Context;
use crate::framework_run::Run;
use crate::plan::{Plan, PlanContext};
use crate::subprocess::Timeouts;

/// The result of the check.
pub(crate) struct Diagnosis {
    pub(crate) machine: Machine,
    /// The virtual environment of the working directory, if no environment is active.
    pub(crate) inactive: Option<PathBuf>,
    /// The environment that was checked.
    pub(crate) environment: Option<PathBuf>,
    /// The installation that the loader or the requested program would use.
    pub(crate) report: Option<InstallationReport>,
    /// How the requested program finds the installation.
    pub(crate) program: Option<String>,
    /// The output of the convolution, line by line.
    pub(crate) convolution: Vec<String>,
    /// The runs of the requested frameworks.
    pub(crate) runs: Vec<Run>,
    /// With `verify`: the names of the libraries that were compared with a recorded sha256.
    pub(crate) verified: Option<Vec<&'static str>>,
    /// The findings, most severe first.
    pub(crate) findings: Vec<Finding>,
    /// The plan that resolves the findings.
    pub(crate) plan: Plan,
}

/// Runs the requested checks.
pub(crate) fn diagnose(context: &Context, requested: &Requested, timeouts: &Timeouts) -> Diagnosis {
    let observations = Observations::read(context, requested, timeouts);
    let mut findings = checks::findings(&observations);
    findings.retain(|finding| requested.is_reported(finding));
    findings.sort_by(|a, b| b.kind.severity.cmp(&a.kind.severity).then(a.kind.code.cmp(b.kind.code)));
    let Observations { machine, program, used, load, runs, .. } = observations;
    let report = used.map(|(_, report)| report);
    let owner = report
        .as_ref()
        .filter(|_| program.how.is_some())
        .map(|report| (report.dir.as_path(), report.package.as_ref().is_some_and(Package::is_cudnn)));
    let plan_context = PlanContext { program: owner, is_dir_named: context.search.explicit_candidate().is_some() };
    let plan = Plan::of(&findings, &plan_context);
    let verified = report.as_ref().filter(|_| requested.verify).map(installation::verified);
    let inactive = context.inactive_environment().filter(|_| requested.program.is_none());
    let environment = context.search.environments().iter().find_map(Origin::root).map(Path::to_owned);
    Diagnosis {
        machine,
        inactive,
        environment,
        report,
        program: program.how,
        convolution: load.convolution,
        runs,
        verified,
        findings,
        plan,
    }
}

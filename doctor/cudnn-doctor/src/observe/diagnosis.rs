//! Makes a diagnosis from observations: findings and a plan.

use std::path::{Path, PathBuf};

use cudnn_cli::subprocess::Timeouts;
use cudnn_frameworks::installation::{InstallationReport, Package};
use cudnn_probe::Origin;
use cudnn_probe::facts::Facts;
use cudnn_rules::check::machine::Machine;
use cudnn_rules::check::observations::Observations;
use cudnn_rules::check::{Finding, Requested, checks, installation};
use cudnn_rules::context::Context;
use cudnn_rules::drop_in::layers::problems;
use cudnn_rules::framework_run::Run;
use cudnn_rules::plan::{Check, Plan, PlanContext};

use super::{framework_run, load_test, machine};

pub(crate) struct Diagnosis {
    pub(crate) machine: Machine,
    /// The virtual environment of the working directory, if no environment is active.
    pub(crate) inactive: Option<PathBuf>,
    /// The environment that was checked.
    pub(crate) environment: Option<PathBuf>,
    /// The installation that the loader or the requested program would use.
    pub(crate) report: Option<InstallationReport>,
    /// Layers that are requested but stay off.
    pub(crate) layer_problems: Vec<String>,
    /// How the requested program finds the installation.
    pub(crate) program: Option<String>,
    /// The output lines of the convolution.
    pub(crate) convolution: Vec<String>,
    pub(crate) runs: Vec<Run>,
    /// With `verify`: the names of libraries with a recorded sha256.
    pub(crate) verified: Option<Vec<&'static str>>,
    /// The findings, most severe first.
    pub(crate) findings: Vec<Finding>,
    pub(crate) plan: Plan,
    /// Repeats the checks without running programs.
    pub(crate) check: Box<Check>,
}

pub(crate) fn diagnose(context: &Context, requested: &Requested, timeouts: &Timeouts) -> Diagnosis {
    // The plan is simulated on the facts that were read.
    Facts::active().unwrap_or_default().within(|| diagnose_by_facts(context, requested, timeouts))
}

fn diagnose_by_facts(context: &Context, requested: &Requested, timeouts: &Timeouts) -> Diagnosis {
    let observations = observe(context, requested, timeouts);
    let findings = checks::findings(&observations);
    let Observations { machine, program, used, load, runs, .. } = observations;
    let report = used.map(|(_, report)| report);
    let owner = report
        .as_ref()
        .filter(|_| program.how.is_some())
        .map(|report| (report.dir.as_path(), report.package.as_ref().is_some_and(Package::is_cudnn)));
    // The simulation knows neither the contents of new files nor the behavior of programs.
    let by_reading =
        Requested { load: false, convolution: false, verify: false, frameworks: Vec::new(), ..requested.clone() };
    let (again, timeouts) = (context.again(), *timeouts);
    let check = Box::new(move || checks::findings(&observe(&again.again(), &by_reading, &timeouts)));
    let is_dir_named = context.search.explicit_candidate().is_some();
    let plan = Plan::of(&findings, &PlanContext { program: owner, is_dir_named, check: Some(&*check) });
    let verified = report.as_ref().filter(|_| requested.verify).map(installation::verified);
    let inactive = context.inactive_environment().filter(|_| requested.program.is_none());
    let environment = context.search.environments().iter().find_map(Origin::root).map(Path::to_owned);
    Diagnosis {
        machine,
        inactive,
        environment,
        layer_problems: report.iter().flat_map(|report| problems(report, &context.host)).collect(),
        report,
        program: program.how,
        convolution: load.convolution,
        runs,
        verified,
        findings,
        plan,
        check,
    }
}

/// Reads files, and starts child processes for facts that files cannot show.
fn observe<'a>(context: &'a Context, requested: &'a Requested, timeouts: &Timeouts) -> Observations<'a> {
    let mut observations = Observations::read(context, requested, machine::detect(&context.host, timeouts));
    if let Some((report, parts)) = observations.to_load() {
        let load = load_test::load(report, &parts, timeouts);
        observations.add_load_test(load);
    }
    let run = |framework: &_| framework_run::run(*framework, context, &observations.machine, timeouts);
    observations.runs = requested.frameworks.iter().map(run).collect();
    observations
}

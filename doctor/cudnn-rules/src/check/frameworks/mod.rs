//! Checks whether the frameworks of an environment work on this machine with the cuDNN they would load.
//!
//! `OF_CUDNN` and `OF_FRAMEWORK` list the checks. The comment of a check starts with the code.

mod context;
mod cuda;
mod cudnn;
mod environment;
mod gpu;
mod package;
mod pins;
mod remedy;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_frameworks::{Depth, Environment, Survey, normalized, packages_with_requirements, survey_to};
use cudnn_probe::{Host, Os};

use super::finding::Finding;
use super::framework_requirement::{CUDNN_MAJOR, FrameworkRequirement, WHEEL, is_without_cuda};
use super::machine::Machine;
use super::remedies;
use super::wheel_choice::choose_wheel;
use crate::context::{Context, MINIMAL_DEPTH};
use crate::packages::{CUDA_MAJORS, package_name};
use crate::plan::{Plan, PlanContext};
use crate::remedy::Remedy;
use context::{FrameworkContext, dir_of_graph};

pub(in crate::check) use environment::{Users, qualify_unneeded};
pub use text::source;
pub use text::{how, how_in_short, release};

type FrameworkCheck = fn(&FrameworkContext<'_>) -> Option<Finding>;

/// Checks of the cuDNN that a framework would load. Only the first finding is reported, because a fix may select a
/// different cuDNN.
const OF_CUDNN: [FrameworkCheck; 6] =
    [cudnn::for_other_cuda, cudnn::missing, cudnn::mixed, cudnn::too_old, cudnn::incomplete, cudnn::older_shim];

const OF_FRAMEWORK: [FrameworkCheck; 6] =
    [cudnn::half_searched, pins::unmet, cuda::missing, cuda::damaged, gpu::old_driver, gpu::kernels];

/// Checks of a framework that uses a cuDNN loaded by another framework. The other checks apply to that framework.
const OF_USER: [FrameworkCheck; 2] = [cudnn::too_old, pins::unmet];

/// The frameworks of an environment, with the findings about them.
pub struct FrameworkReport {
    /// The facts about the environment.
    pub survey: Arc<Survey>,
    /// The findings about the frameworks, most severe first.
    pub findings: Vec<Finding>,
    /// The plan that resolves the findings.
    pub plan: Plan,
}

pub(crate) fn findings(survey: &Survey, machine: &Machine, host: &Host) -> Vec<Finding> {
    // Several frameworks may use one installation.
    let mut reports: HashMap<PathBuf, Option<InstallationReport>> = HashMap::new();
    let mut findings: Vec<Finding> = Vec::new();
    for framework in &survey.frameworks {
        let report = dir_of_graph(framework)
            .and_then(|dir| reports.entry(dir).or_insert_with_key(|dir| InstallationReport::read(dir, host)).as_ref());
        findings.extend(check_framework(&FrameworkContext { framework, survey, machine, host, report }));
    }
    findings.extend(cudnn_frameworks::pairs(survey, host).iter().filter_map(environment::together));
    findings.extend(environment::unreadable(survey));
    findings.extend(environment::unsearched(survey));
    if survey.environment.os != Os::HOST {
        findings.iter_mut().for_each(defer_to_windows);
    }
    findings
}

/// Checks the frameworks of an environment.
pub fn check_frameworks(survey: Arc<Survey>, machine: &Machine, host: &Host) -> FrameworkReport {
    let found = findings(&survey, machine, host);
    let check = || {
        let depth = Depth { kernels: false, unlisted: false, metadata: true };
        let again = survey_to(&Environment::at(&survey.environment.root, host), host, depth);
        findings(&again, machine, host)
    };
    let plan = Plan::of(&found, &PlanContext { check: Some(&check), ..PlanContext::default() });
    FrameworkReport { survey, findings: found, plan }
}

fn check_framework(context: &FrameworkContext<'_>) -> Vec<Finding> {
    let damaged = package::damaged(context);
    if is_without_cuda(context.framework) {
        return damaged.into_iter().chain(package::cpu_only(context)).collect();
    }
    let (of_cudnn, others): (&[FrameworkCheck], &[FrameworkCheck]) = match context.framework.kind.cudnn_loader() {
        None => (&OF_CUDNN, &OF_FRAMEWORK),
        Some(_) => (&[], &OF_USER),
    };
    let of_cudnn = of_cudnn.iter().find_map(|check| check(context));
    let others = others.iter().filter_map(|check| check(context));
    let mut findings: Vec<Finding> = damaged.into_iter().chain(of_cudnn).chain(others).collect();
    let dir = context.report.map(|report| report.dir.clone());
    for finding in &mut findings {
        finding.installation.clone_from(&dir);
        finding.subject.clone_from(&context.framework.distribution.name);
    }
    findings
}

/// Removes commands for a Windows environment, because they would run on this system.
fn defer_to_windows(finding: &mut Finding) {
    if finding.remedy.as_ref().is_some_and(|remedy| !remedy.actions.is_empty()) {
        finding.remedy = Some(Remedy::new("run `cudnn-doctor frameworks` on Windows, which has the commands"));
    }
}

pub(crate) fn active(context: &Context) -> Option<Environment> {
    let of_python =
        context.python.as_ref().map(|python| Environment::from_python(&python.program, &python.root, &context.host));
    of_python.or_else(|| Environment::active(&context.search).into_iter().next())
}

pub(crate) fn install_for_active(context: &Context, machine: &Machine) -> Option<Remedy> {
    let survey = context.survey(&active(context)?, MINIMAL_DEPTH);
    let demanding = survey.frameworks.iter().filter(|framework| FrameworkRequirement::of(framework).is_some());
    let framework = demanding.min_by_key(|framework| framework.opens.is_optional)?;
    Some(remedy::install(&FrameworkContext { framework, survey: &survey, machine, host: &context.host, report: None }))
}

/// Installs the full cuDNN, if the frameworks of the active environment require none. Without a given CUDA, other
/// packages choose the build.
pub(crate) fn install_full(context: &Context, machine: &Machine, cuda_major: Option<u32>) -> Remedy {
    remedies::install(context, machine, cuda_major.or_else(|| required_cuda(context, machine)))
}

/// Returns the CUDA of the cuDNN wheel that the packages of the active environment require, if they agree on one that
/// works with the driver.
fn required_cuda(context: &Context, machine: &Machine) -> Option<u32> {
    let packages = packages_with_requirements(&active(context)?);
    let requirements = packages.iter().flat_map(|(_, requirements)| requirements);
    let cuda_of = |requirement: &String| normalized(package_name(requirement)).strip_prefix(WHEEL)?.parse().ok();
    let majors: BTreeSet<u32> = requirements.filter_map(cuda_of).filter(|major| CUDA_MAJORS.contains(major)).collect();
    let major = *majors.first().filter(|_| majors.len() == 1)?;
    machine.too_old_for(major).is_none().then_some(major)
}

/// Returns the unsupported cuDNN major that the frameworks of the active environment need, and their names.
pub(crate) fn needing_other_major(context: &Context, machine: &Machine) -> Option<(u32, Vec<String>)> {
    let survey = context.survey(&active(context)?, MINIMAL_DEPTH);
    let major = choose_wheel(&survey.frameworks, machine).ok()?.cudnn_major;
    let demanding = survey.frameworks.iter().filter(|framework| FrameworkRequirement::of(framework).is_some());
    (major != CUDNN_MAJOR).then(|| (major, demanding.map(text::title).collect()))
}

/// Makes a framework find the CUDA and cuDNN libraries, after a run failed because of a missing one. Returns `None` if
/// the files name no libraries.
pub(crate) fn help_for_libraries(
    id: &str,
    environment: &Environment,
    machine: &Machine,
    host: &Host,
) -> Option<Remedy> {
    let survey = survey_to(environment, host, MINIMAL_DEPTH);
    let framework = survey.frameworks.iter().find(|framework| framework.kind.id == id)?;
    let context = FrameworkContext { framework, survey: &survey, machine, host, report: None };
    let findings = [cuda::missing(&context), cudnn::missing(&context)];
    findings.into_iter().flatten().filter_map(|finding| finding.remedy).reduce(|mut all, other| {
        if !other.actions.is_empty() {
            let (text, more) = (all.text.trim_end_matches(':'), other.text);
            all.text = if all.actions.is_empty() { more } else { format!("{text}; then {more}") };
            all.actions.extend(other.actions);
        }
        all
    })
}

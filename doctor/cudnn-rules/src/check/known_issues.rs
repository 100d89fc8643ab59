//! Checks for known issues of the release: C017.

use cudnn_cli::programs::doctor;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::{Os, Release, Version};

use super::companions;
use super::finding::{Finding, KNOWN_ISSUE};
use super::machine::Gpu;
use super::remedies::{self, Wanted};
use crate::context::Context;
use crate::release_facts::{KnownIssue, ReleaseFacts, ReleaseRange};
use crate::remedy::{Effect, Remedy};

/// C017: issues of the release that concern the GPUs and the cuBLAS of this machine.
pub(super) fn findings(
    report: &InstallationReport,
    facts: &ReleaseFacts,
    gpus: &[Gpu],
    context: &Context,
) -> Vec<Finding> {
    let Some(version) = report.version else { return Vec::new() };
    let upgrade_to_requirement = |minimum: Version| {
        let wanted = Wanted { minimum: Some(minimum), ..Wanted::default() };
        remedies::upgrade_to_requirement(report, &wanted, gpus, context)
    };
    let affecting = facts.known_issues.iter().filter_map(|issue| Some((issue, issue.affects(version)?)));
    let concerns = |(issue, _): &(&KnownIssue, _)| issue.concerns(gpus, || companions::cublas_release(report, context));
    let found: Vec<_> = affecting.filter(concerns).collect();
    // Use a single upgrade that fixes as many issues as possible.
    let mut fixes: Vec<Version> = found.iter().filter_map(|(_, range)| Some(range.before?.0)).collect();
    fixes.sort_unstable();
    let upgrade = fixes.into_iter().rev().find_map(|fix| Some((fix, upgrade_to_requirement(fix).ok()?)));
    let remedy = |Release(fixed_in): Release| {
        let fixing = upgrade.as_ref().filter(|(fix, _)| fixed_in <= *fix);
        match fixing.map_or_else(|| upgrade_to_requirement(fixed_in), |(_, help)| Ok(help.clone())) {
            Ok(help) if help.effect == Effect::SameDir => help,
            // The command would not change the cuDNN that programs use.
            Ok(_) => Remedy::new(format!("cuDNN {fixed_in} does not have this issue")),
            Err(reason) => Remedy::new(reason),
        }
    };
    // On Windows, no variable preloads the drop-in.
    let can_block = Os::HOST == Os::Linux;
    let finding = |(issue, range): (&KnownIssue, &ReleaseRange)| {
        let condition = issue.condition.as_ref().map_or(String::new(), |condition| format!(", if {condition}"));
        let gpus = issue.compute_capability.as_ref().map_or(String::new(), |range| format!(", with {range}"));
        let rule = issue.erratum.as_ref().filter(|_| can_block);
        let workaround = rule.map(|rule| {
            format!("until then, `{} run --errata known -- PROGRAM` blocks the affected plans ({rule})", doctor())
        });
        Finding::new(KNOWN_ISSUE, format!("cuDNN {version} has a known issue: {}{condition}", issue.effect))
            .note(format!("affects {range}{gpus}"))
            .note(format!("source: {}", issue.source))
            .notes(workaround)
            .remedy(range.before.map_or_else(|| Remedy::new("no release is known to fix this"), remedy))
    };
    found.into_iter().map(finding).collect()
}

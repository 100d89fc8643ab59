//! Selects the remedies to follow when some contradict each other, by the rules in docs/design/0023-plan.md.

use std::path::Path;

use cudnn_probe::DIR_VARIABLE;

use crate::check::finding::{
    FRAMEWORK_DAMAGED_CUDNN, FRAMEWORK_MIX, FRAMEWORK_OLD_CUDNN, INCOMPLETE, LACKS_FUNCTION, LD_SO_MIX, LINKED_MIX,
    MIXED_CUDA, MIXED_VERSIONS, NO_BUILTINS, NO_CUBLAS, NO_KERNELS, NO_NVRTC, OLD_GPU, OVERLAPPING_PACKAGES,
    REQUIREMENT, UNUSABLE_LIBRARY,
};
use crate::check::{Finding, FindingKind, Severity};
use crate::escape::Printable;
use crate::packages::PackageChange;
use crate::remedy::{Action, Effect, Remedy, Variable};
use crate::shell::doctor;

use super::conflict;

/// Information that the rules need in addition to the findings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanContext<'a> {
    /// The directory of the installation that the requested program finds, and whether it belongs to a cuDNN package.
    pub(crate) program: Option<(&'a Path, bool)>,
    /// Whether the loader's variable names a directory.
    pub(crate) is_dir_named: bool,
}

/// Findings whose remedy may replace the installation.
const REPLACING: [FindingKind; 5] = [REQUIREMENT, LACKS_FUNCTION, OLD_GPU, NO_KERNELS, OVERLAPPING_PACKAGES];
/// Findings whose remedy may repair files of the installation.
const REPAIRING: [FindingKind; 5] = [INCOMPLETE, UNUSABLE_LIBRARY, MIXED_VERSIONS, MIXED_CUDA, FRAMEWORK_DAMAGED_CUDNN];
/// Mixes of two installations. Repairing files may fix these too, because ld.so continues to search for another
/// cuDNN if a file is missing or damaged.
const MIXES: [FindingKind; 3] = [LD_SO_MIX, LINKED_MIX, FRAMEWORK_MIX];
/// Findings about CUDA libraries that cuDNN needs.
const ABOUT_CUDA: [FindingKind; 3] = [NO_CUBLAS, NO_NVRTC, NO_BUILTINS];

fn is_one_of(finding: &Finding, kinds: &[FindingKind]) -> bool {
    kinds.iter().any(|kind| kind.code == finding.kind.code)
}

/// Returns the remedy to follow for each finding, or a remedy that tells the user to wait.
pub(super) fn resolve(findings: &[Finding], context: &PlanContext<'_>) -> Vec<Option<Remedy>> {
    let replacing = findings.iter().find(|finding| replaces_installation(finding));
    let replacing_framework = findings.iter().find(|finding| replaces_cudnn_of_framework(finding));
    let resolved = findings.iter().map(|finding| {
        let remedy = finding.remedy.as_ref()?;
        let is_of = |first: &&Finding| first.installation.is_some() && finding.installation == first.installation;
        let first = replacing.filter(is_of).filter(|first| gives_way(finding, first));
        if let Some(first) = first.or(replacing_framework.filter(|_| is_one_of(finding, &ABOUT_CUDA))) {
            return Some(wait_for(first, "replaces this installation"));
        }
        let mut repairing = findings.iter().filter(|first| is_of(first) && repairs_files(first));
        if let Some(cause) = repairing.next().filter(|_| is_one_of(finding, &MIXES)) {
            return Some(wait_for(cause, "repairs this installation"));
        }
        let remedy = match context.program {
            Some((dir, is_of_package)) if finding.installation.as_deref() == Some(dir) => {
                require_manual_replacement(remedy.clone(), dir, is_of_package)
            }
            _ => remedy.clone(),
        };
        Some(if context.is_dir_named { unset_loader_dir(remedy) } else { remedy })
    });
    without_contradictions(findings, resolved.collect())
}

/// Returns whether a remedy belongs in the plan. Notes are only advice, and manual work must be started by the user.
pub(super) fn is_planned(finding: &Finding, remedy: &Remedy) -> bool {
    finding.kind.severity > Severity::Note && !remedy.is_by_hand
}

/// Defers the later of two contradicting remedies. Findings are sorted by severity.
fn without_contradictions(findings: &[Finding], mut remedies: Vec<Option<Remedy>>) -> Vec<Option<Remedy>> {
    let mut kept: Vec<(&Finding, Remedy)> = Vec::new();
    for (finding, slot) in findings.iter().zip(&mut remedies) {
        let Some(remedy) = slot.as_ref().filter(|remedy| is_planned(finding, remedy)) else { continue };
        match kept.iter().find(|(_, before)| conflict::is_between(before, remedy)) {
            Some((before, _)) => *slot = Some(wait_for(before, "changes the same")),
            None => kept.push((finding, remedy.clone())),
        }
    }
    remedies
}

fn wait_for(first: &Finding, effect: &str) -> Remedy {
    let (code, doctor) = (first.kind.code, doctor());
    Remedy::new(format!("fix {code} first, which {effect}; then run `{doctor} check` again"))
}

/// Returns whether a finding must wait for the remedy that replaces the installation. Only one such remedy is
/// allowed, because others could require a different package or CUDA major.
fn gives_way(finding: &Finding, first: &Finding) -> bool {
    let (Some(remedy), Some(first)) = (&finding.remedy, &first.remedy) else { return false };
    let is_elsewhere = first.effect == Effect::OtherDir && !remedy.actions.is_empty();
    remedy != first && (remedy.effect != Effect::Other || is_one_of(finding, &ABOUT_CUDA) || is_elsewhere)
}

fn replaces_installation(finding: &Finding) -> bool {
    finding.installation.is_some()
        && finding.remedy.as_ref().is_some_and(|remedy| match remedy.effect {
            Effect::Other => false,
            Effect::SameDir | Effect::OtherDir => is_one_of(finding, &REPLACING),
        })
}

/// Returns whether the cuDNN of a framework is replaced by a build for another CUDA. This comes before installing
/// CUDA libraries, which only the old build may need.
fn replaces_cudnn_of_framework(finding: &Finding) -> bool {
    let replaces = |remedy: &Remedy| remedy.changes().any(PackageChange::is_replacement);
    is_one_of(finding, &[FRAMEWORK_OLD_CUDNN]) && finding.remedy.as_ref().is_some_and(replaces)
}

/// Returns whether the finding is fixed by repairing files of the installation.
fn repairs_files(finding: &Finding) -> bool {
    let repairs =
        |remedy: &Remedy| remedy.effect == Effect::SameDir && !remedy.actions.is_empty() && !remedy.is_by_hand;
    is_one_of(finding, &REPAIRING) && finding.remedy.as_ref().is_some_and(repairs)
}

/// Asks the user to replace an installation that no command can change. Installing another cuDNN into the active
/// environment would not help, because the program does not search there.
fn require_manual_replacement(remedy: Remedy, dir: &Path, is_of_package: bool) -> Remedy {
    let uses_other = |action: &Action| matches!(action, Action::Variable(Variable::Use(_)));
    let is_beside = remedy.effect == Effect::OtherDir && remedy.installs();
    if !is_beside || is_of_package && remedy.actions.iter().any(uses_other) {
        return remedy;
    }
    let dir = dir.printable();
    Remedy::new(format!("install a different release in {dir}, where the program finds cuDNN"))
}

/// Makes remedies that select another cuDNN also change [`DIR_VARIABLE`]. While it is set, the loader searches no
/// other directory.
fn unset_loader_dir(remedy: Remedy) -> Remedy {
    let is_about_variable = |action: &Action| match action {
        Action::Variable(Variable::Use(_)) => true,
        Action::Variable(Variable::Set { name, .. } | Variable::Unset(name)) => name == DIR_VARIABLE,
        _ => false,
    };
    let is_needed = remedy.effect == Effect::OtherDir && !remedy.actions.iter().any(is_about_variable);
    if is_needed { remedy.unset(DIR_VARIABLE) } else { remedy }
}

//! Checks the drop-in installed over a cuDNN that has changed since `install`: C110, C111, C112.

use cudnn_cli::escape::Printable;
use cudnn_cli::shell::SEARCH_PATH;
use cudnn_probe::facts::PathFacts;
use std::path::Path;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_loader::types::CUDNN_VERSION;
use cudnn_probe::{Library, Os, Version};

use super::finding::{DROP_IN_REPLACED, Finding, OLD_DROP_IN, STALE_SHIM};
use super::{by_name, remedies};
use crate::context::Context;
use crate::cudnn_file::drop_in_dir;
use crate::drop_in::command::DropInCommand;
use crate::drop_in::functions::{lacking, nvidia_shim_in};
use crate::drop_in::state::{BackupState, DropInFiles, DropInState, Shim};
use crate::drop_in::{KEPT, PRELOAD, source};
use crate::remedy::{Action, Effect, Remedy};

/// The newest release with functions that this doctor's drop-in exports.
const NEWEST: usize = CUDNN_VERSION as usize;

pub(super) fn finding(report: &InstallationReport, context: &Context) -> Option<Finding> {
    // Most directories contain no drop-in, which these two look-ups show cheaply.
    let is_installed = DropInFiles::in_dir(&report.dir).kept.path_exists() || drop_in_dir(report) == Some(&report.dir);
    let state = is_installed.then(|| DropInState::read(&report.dir, &context.host));
    let in_dir = state.as_ref().and_then(|state| match (&state.shim, &state.kept) {
        (Shim::Nvidia, kept) => Some(replaced(report, kept, &state.files)),
        (Shim::DropIn, BackupState::OfThisRelease) => old_in_dir(report, &state.files),
        (Shim::DropIn, _) => Some(stale(report, state)),
        _ => None,
    });
    in_dir.or_else(|| old_elsewhere(report, context))
}

/// C112: the drop-in in this directory is outdated.
fn old_in_dir(report: &InstallationReport, files: &DropInFiles) -> Option<Finding> {
    let finding = old(&files.shim, &files.kept)?;
    let text = "replace it with this doctor's drop-in:";
    let otherwise = "use a newer cudnn-doctor with its drop-in; until then, uninstall the drop-in:";
    Some(finding.remedy(install(report, &files.kept, text, otherwise)))
}

/// C112: a drop-in on the search path or on LD_PRELOAD is outdated.
fn old_elsewhere(report: &InstallationReport, context: &Context) -> Option<Finding> {
    if Os::HOST != Os::Linux {
        return None;
    }
    let finding = old(&by_name::drop_in_before(report, context)?, &nvidia_shim_in(&report.dir)?)?;
    let text = "replace it with the drop-in of a newer release, or take it off";
    Some(finding.remedy(format!("{text} {SEARCH_PATH} and {PRELOAD}")))
}

fn old(drop_in: &Path, nvidia: &Path) -> Option<Finding> {
    let message = format!("the drop-in {} {}", drop_in.printable(), lacking(drop_in, nvidia)?);
    let note = "programs that call one of these functions fail with \"undefined symbol\"";
    Some(Finding::new(OLD_DROP_IN, message).note(note))
}

/// C110: an installer replaced the drop-in with NVIDIA's shim.
fn replaced(report: &InstallationReport, kept: &BackupState, files: &DropInFiles) -> Finding {
    let (dir, shim) = (&report.dir, Library::Shim);
    let message = format!("the drop-in for the cuDNN in {} was replaced by NVIDIA's {shim}", dir.printable());
    let note = match kept {
        BackupState::Stale(reason) => format!("the backup {KEPT} {reason}"),
        _ => format!("the backup {KEPT} still exists: an installation was repeated, or `install` was interrupted"),
    };
    let away = DropInCommand::Uninstall.command(dir);
    let text = format!("reinstall the drop-in (`{away}` removes the leftovers instead):");
    let otherwise = "this doctor has no drop-in for this cuDNN; remove the leftovers:";
    Finding::new(DROP_IN_REPLACED, message).note(note).remedy(install(report, &files.shim, &text, otherwise))
}

/// Installs the doctor's drop-in, or uninstalls the existing one if the doctor's lacks functions of NVIDIA's shim.
fn install(report: &InstallationReport, nvidia: &Path, text: &str, otherwise: &str) -> Remedy {
    let is_usable = has_drop_in(|drop_in| lacking(drop_in, nvidia).is_none());
    let (text, command) =
        if is_usable { (text, DropInCommand::Install { from: None }) } else { (otherwise, DropInCommand::Uninstall) };
    Remedy::new(text).action(Action::DropIn { command, dir: report.dir.clone() }).effect(Effect::SameDir)
}

fn has_drop_in(suits: impl FnOnce(&Path) -> bool) -> bool {
    source::find(None).is_ok_and(|source| suits(&source.file))
}

/// C111: the backup of NVIDIA's shim is missing, damaged or belongs to a different release.
fn stale(report: &InstallationReport, state: &DropInState) -> Finding {
    let dir = report.dir.printable();
    let message =
        format!("the drop-in is installed for the cuDNN in {dir}, but there is no matching backup of NVIDIA's shim");
    // `install` replaces the backup and preserves the list of layers, which `uninstall` would remove.
    let again = || Action::DropIn { command: DropInCommand::Install { from: None }, dir: report.dir.clone() };
    // The functions of a missing shim are known from the headers of the release.
    let is_known = report.version.is_none_or(|version| version <= Version::from_number(NEWEST));
    let remedy = match has_drop_in(|_| is_known) {
        true => with_nvidias_shim(report).action(again()),
        false => bring_back(report),
    };
    Finding::new(STALE_SHIM, message)
        .note(state.problem_of_backup())
        .note("the drop-in works, but cannot be uninstalled without that shim")
        .remedy(remedy)
}

/// Returns the commands that restore NVIDIA's shim and remove the leftovers of the drop-in.
pub fn bring_back(report: &InstallationReport) -> Remedy {
    with_nvidias_shim(report).action(removal(&report.dir))
}

fn with_nvidias_shim(report: &InstallationReport) -> Remedy {
    let remedy = remedies::reinstall(report);
    let text = remedy.text.replace(remedies::PUT_DROP_IN_AGAIN, "");
    let text = format!("{}, which brings NVIDIA's {} back:", text.trim_end_matches(':'), Library::Shim);
    remedy.with_text(text)
}

/// Returns the action that removes the drop-in.
pub fn removal(dir: &Path) -> Action {
    Action::DropIn { command: DropInCommand::Uninstall, dir: dir.to_owned() }
}

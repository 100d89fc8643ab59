//! Checks the drop-in in front of a cuDNN that has changed since `install`: C110, C111, C112.

use cudnn_probe::facts::PathFacts;
use std::path::Path;

use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::{Library, Os};

use super::finding::{DROP_IN_REPLACED, Finding, OLD_DROP_IN, STALE_SHIM};
use super::ld_so;
use crate::context::Context;
use crate::drop_in::change::bring_back;
use crate::drop_in::command::Command;
use crate::drop_in::functions::{lacking, nvidia_shim_in};
use crate::drop_in::preload::PRELOAD;
use crate::drop_in::state::{BackupState, DropInState, Files, Shim};
use crate::drop_in::{KEPT, source};
use crate::escape::Printable;
use crate::remedy::{Action, Effect, Remedy};
use crate::shell::SEARCH_PATH;

/// The finding about the drop-in in front of this installation.
pub(super) fn finding(report: &InstallationReport, context: &Context) -> Option<Finding> {
    // Most directories have no kept file, and need not be read.
    let is_kept = Files::in_dir(&report.dir).kept.path_exists();
    let state = is_kept.then(|| DropInState::read(&report.dir, &context.host));
    let in_dir = state.as_ref().and_then(|state| match (&state.shim, &state.kept) {
        (Shim::Nvidia, kept) => Some(replaced(report, kept, &state.files)),
        (Shim::DropIn, BackupState::Stale(reason)) => Some(stale(report, reason)),
        (Shim::DropIn, BackupState::OfThisRelease) => old_in_dir(report, &state.files),
        _ => None,
    });
    in_dir.or_else(|| old_elsewhere(report, context))
}

/// C112: the drop-in that `install` has put in front is too old.
fn old_in_dir(report: &InstallationReport, files: &Files) -> Option<Finding> {
    let finding = old(&files.shim, &files.kept)?;
    let text = "put the drop-in of this doctor in its place:";
    let otherwise = "use a newer cudnn-doctor with its drop-in; until then take the drop-in away:";
    Some(finding.remedy(install(report, &files.kept, text, otherwise)))
}

/// C112: a drop-in in another directory, or on LD_PRELOAD, is too old.
fn old_elsewhere(report: &InstallationReport, context: &Context) -> Option<Finding> {
    if Os::HOST != Os::Linux {
        return None;
    }
    let finding = old(&ld_so::drop_in_before(report, context)?, &nvidia_shim_in(&report.dir)?)?;
    let text = "replace it with the drop-in of a newer release, or take it off";
    Some(finding.remedy(format!("{text} {SEARCH_PATH} and {PRELOAD}")))
}

fn old(drop_in: &Path, nvidia: &Path) -> Option<Finding> {
    let message = format!("the drop-in {} {}", drop_in.printable(), lacking(drop_in, nvidia)?);
    let note = "with the drop-in, a program ends with \"undefined symbol\" if it calls one of these functions";
    Some(Finding::new(OLD_DROP_IN, message).note(note))
}

/// C110: an installer has replaced the drop-in by NVIDIA's shim.
fn replaced(report: &InstallationReport, kept: &BackupState, files: &Files) -> Finding {
    let (dir, shim) = (&report.dir, Library::Shim);
    let message = format!("the drop-in was in front of the cuDNN in {}, and NVIDIA's {shim} is now", dir.printable());
    let note = match kept {
        BackupState::Stale(reason) => format!("{KEPT}, which the drop-in was in front of, {reason}"),
        _ => format!("{KEPT} is kept beside it: an installation was repeated, or `install` was interrupted"),
    };
    let away = Command::Uninstall.command(dir);
    let text = format!("put the drop-in in front again (`{away}` removes what is left of it):");
    let otherwise = "this doctor has no drop-in for this cuDNN, so remove what is left:";
    Finding::new(DROP_IN_REPLACED, message).note(note).remedy(install(report, &files.shim, &text, otherwise))
}

/// Puts the drop-in of this doctor in front, or takes the one that is there away if this doctor has none for this shim of
/// NVIDIA.
fn install(report: &InstallationReport, nvidia: &Path, text: &str, otherwise: &str) -> Remedy {
    let is_usable = source::find(None).is_ok_and(|source| lacking(&source.file, nvidia).is_none());
    let (text, command) =
        if is_usable { (text, Command::Install { from: None }) } else { (otherwise, Command::Uninstall) };
    Remedy::new(text).action(Action::DropIn { command, dir: report.dir.clone() }).effect(Effect::SameDir)
}

/// C111: NVIDIA's shim that is kept is of another release, or damaged.
fn stale(report: &InstallationReport, reason: &str) -> Finding {
    let dir = report.dir.printable();
    let message = format!("the drop-in is in front of the cuDNN in {dir}, but NVIDIA's shim of that is not kept");
    let again = || Action::DropIn { command: Command::Install { from: None }, dir: report.dir.clone() };
    Finding::new(STALE_SHIM, message)
        .note(format!("{KEPT} {reason}"))
        .note("the drop-in works; without that shim it cannot be taken away again")
        .remedy(bring_back(report).actions(source::find(None).is_ok().then(again)))
}

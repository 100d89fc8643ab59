//! The drop-in in front of a cuDNN that has changed since `install`: an upgrade has replaced it, NVIDIA's shim that is kept
//! is of another release, or the drop-in lacks new functions.

use std::path::Path;

use cudnn_probe::{InstallationReport, Library, Os};

use super::finding::{DROP_IN_REPLACED, Effect, Finding, Help, OLD_DROP_IN, STALE_SHIM};
use super::ld_so;
use crate::context::Context;
use crate::drop_in::change::bring_back;
use crate::drop_in::functions::{lacking, nvidia_shim_in};
use crate::drop_in::preload::PRELOAD;
use crate::drop_in::standing::{Files, Kept, Shim, Standing};
use crate::drop_in::target::Command;
use crate::drop_in::{KEPT, source};
use crate::escape::Printable;
use crate::shell::SEARCH_PATH;

/// The finding about the drop-in in front of this installation.
pub(super) fn finding(report: &InstallationReport, context: &Context) -> Option<Finding> {
    // Most directories have no kept file, and need not be read.
    let is_kept = Files::in_dir(&report.dir).kept.symlink_metadata().is_ok();
    let standing = is_kept.then(|| Standing::read(&report.dir, &context.host));
    let in_dir = standing.as_ref().and_then(|standing| match (&standing.shim, &standing.kept) {
        (Shim::Nvidia, kept) => Some(replaced(report, kept, &standing.files)),
        (Shim::DropIn, Kept::Stale(reason)) => Some(stale(report, reason)),
        (Shim::DropIn, Kept::OfThisRelease) => old_in_dir(report, &standing.files),
        _ => None,
    });
    in_dir.or_else(|| old_elsewhere(report, context))
}

/// The drop-in that `install` has put in front is too old.
fn old_in_dir(report: &InstallationReport, files: &Files) -> Option<Finding> {
    let finding = old(&files.shim, &files.kept)?;
    let help = if is_usable_before(&files.kept) {
        Help::new("put the drop-in of this doctor in its place:")
            .command(Command::Install { from: None }.line(&report.dir))
    } else {
        Help::new("use a newer cudnn-doctor with its drop-in; until then take the drop-in away:")
            .command(Command::Uninstall.line(&report.dir))
    };
    Some(finding.help(help.effect(Effect::SameDir)))
}

/// A drop-in in another directory, or on LD_PRELOAD, is too old.
fn old_elsewhere(report: &InstallationReport, context: &Context) -> Option<Finding> {
    if Os::HOST != Os::Linux {
        return None;
    }
    let drop_in = ld_so::drop_in_before(report, context)?;
    let finding = old(&drop_in, &nvidia_shim_in(&report.dir)?)?;
    Some(
        finding.help(format!(
            "replace it with the drop-in of a newer release, or take it off {SEARCH_PATH} and {PRELOAD}"
        )),
    )
}

fn old(drop_in: &Path, nvidia: &Path) -> Option<Finding> {
    let lacking = lacking(drop_in, nvidia)?;
    let message = format!("the drop-in {} {lacking}", drop_in.printable());
    let note = "with the drop-in, a program ends with \"undefined symbol\" if it calls one of these functions";
    Some(Finding::new(OLD_DROP_IN, message).note(note))
}

/// Can `install` put the drop-in of this doctor in front of this shim of NVIDIA?
fn is_usable_before(nvidia: &Path) -> bool {
    source::find(None).is_ok_and(|source| lacking(&source.file, nvidia).is_none())
}

fn replaced(report: &InstallationReport, kept: &Kept, files: &Files) -> Finding {
    let (dir, shim) = (&report.dir, Library::Shim);
    let message = format!("the drop-in was in front of the cuDNN in {}, and NVIDIA's {shim} is now", dir.printable());
    let note = match kept {
        Kept::Stale(reason) => format!("{KEPT}, which the drop-in was in front of, {reason}"),
        _ => format!("{KEPT} is kept beside it: an installation was repeated, or `install` was interrupted"),
    };
    let finding = Finding::new(DROP_IN_REPLACED, message)
        .note("an installer that upgrades cuDNN, or installs it again, replaces the drop-in without a word")
        .note(note);
    let away = Command::Uninstall.line(dir);
    // Without a drop-in, `install` could not work.
    let help = if is_usable_before(&files.shim) {
        Help::new(format!("put the drop-in in front again (`{away}` removes what is left of it):"))
            .command(Command::Install { from: None }.line(dir))
    } else {
        Help::new("this doctor has no drop-in for this cuDNN, so remove what is left:").command(away)
    };
    finding.help(help.effect(Effect::SameDir))
}

fn stale(report: &InstallationReport, reason: &str) -> Finding {
    let dir = report.dir.printable();
    let message = format!("the drop-in is in front of the cuDNN in {dir}, but NVIDIA's shim of that is not kept");
    let help = bring_back(report);
    let help = match source::find(None) {
        Ok(_) => help.command(Command::Install { from: None }.line(&report.dir)),
        Err(_) => help,
    };
    Finding::new(STALE_SHIM, message)
        .note(format!("{KEPT} {reason}"))
        .note("the drop-in works; without that shim it cannot be taken away again")
        .help(help)
}

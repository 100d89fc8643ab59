//! The drop-in beside a cuDNN that has changed since `install`: an upgrade has replaced it, or NVIDIA's shim that is kept is
//! of another release.

use cudnn_probe::{InstallationReport, Library};

use super::finding::{DROP_IN_REPLACED, Effect, Finding, Help, STALE_SHIM};
use crate::context::Context;
use crate::drop_in::change::bring_back;
use crate::drop_in::standing::{Files, Kept, Shim, Standing};
use crate::drop_in::target::Command;
use crate::drop_in::{KEPT, source};
use crate::escape::Printable;

/// The finding for a directory in which NVIDIA's shim is kept.
pub(super) fn finding(report: &InstallationReport, context: &Context) -> Option<Finding> {
    // Most directories have none, and need not be read.
    Files::in_dir(&report.dir).kept.symlink_metadata().ok()?;
    let standing = Standing::read(&report.dir, &context.host);
    match (&standing.shim, &standing.kept) {
        (Shim::Nvidia, kept) => Some(replaced(report, kept)),
        (Shim::DropIn, Kept::Stale(reason)) => Some(stale(report, reason)),
        _ => None,
    }
}

fn replaced(report: &InstallationReport, kept: &Kept) -> Finding {
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
    let help = match source::find(None) {
        Ok(_) => Help::new(format!("put the drop-in in front again (or remove what is left of it: `{away}`):"))
            .command(Command::Install { from: None }.line(dir)),
        Err(_) => Help::new("remove what is left of the drop-in, which is not beside this doctor:").command(away),
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

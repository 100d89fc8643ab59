//! `install`, `uninstall`: put the drop-in in front of a cuDNN, or remove it again.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_cli::subprocess::Timeouts;
use cudnn_os::files::symlink;
use cudnn_probe::Library;
use cudnn_probe::layers::{LAYERS_VARIABLE, TUNED_FILE};
use cudnn_rules::context::Context;
use cudnn_rules::drop_in::command::DropInCommand;
use cudnn_rules::drop_in::source::DropInSource;
use cudnn_rules::drop_in::state::{DropInFiles, DropInState, Layers, Shim};
use cudnn_rules::drop_in::{KEPT, VERSION, source};
use cudnn_rules::refusal::Refusal;
use serde_json::{Value, json};

use super::run::{TUNED_VARIABLE, absolute_file, usable_layers};
use crate::drop_in::change::{self, ChangedDropIn, DropInChange, LayerOptions};
use crate::drop_in::target::{self, Place};
use crate::layer_check;

#[derive(clap::Args)]
pub(crate) struct InstallArguments {
    #[command(flatten)]
    place: Place,
    /// The directory with the drop-in. Default: the drop-in shipped with this cudnn-doctor.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Turn on these layers, outermost first, in all programs that do not set CUDNN_LAYERS. Without this option, an
    /// earlier list stays. `uninstall` removes it.
    #[arg(long, value_name = "LAYERS", value_delimiter = ',')]
    layers: Vec<OsString>,
    /// Copy this file next to the drop-in, for the layer `tuned` in programs that do not set CUDNN_TUNED.
    #[arg(long, value_name = "FILE", requires = "layers")]
    tuned: Option<PathBuf>,
}

pub(crate) fn install(
    arguments: &InstallArguments,
    context: &Context,
    timeouts: &Timeouts,
    format: Format,
) -> CommandResult {
    let command = DropInCommand::Install { from: arguments.from.as_deref() };
    let dir = target::find(&arguments.place, command, context)?;
    let source = source::find(arguments.from.as_deref())?;
    let options = options(arguments, &dir, &source, context, timeouts)?;
    let ChangedDropIn { change, state } = &change::install(&dir, &source, options.as_ref(), &context.host)?;
    format.report(
        || value(*change, state, &dir),
        || {
            let cudnn = state.title(&dir);
            match change {
                DropInChange::None => outln!("The drop-in {VERSION} is already in front of {cudnn}."),
                DropInChange::Updated => {
                    outln!("The drop-in {VERSION} is in front of {cudnn}, in place of another drop-in.")
                }
                DropInChange::Configured => outln!("The drop-in {VERSION} was in front of {cudnn} already."),
                _ => outln!("The drop-in {VERSION} is in front of {cudnn}."),
            }
            outln!("NVIDIA's {} is saved next to it as {KEPT}.", Library::Shim);
            if state.layers != Layers::Ours {
                outln!("Layers are unavailable: the drop-in was shipped without their library.");
            }
            if let Some(list) = &state.list {
                outln!("These layers are on in programs that do not set {LAYERS_VARIABLE}: {}.", list.printable());
            }
            outln!("To remove the drop-in: {}", DropInCommand::Uninstall.command(&dir));
            let again = command.command(&dir);
            outln!("If you upgrade cuDNN, which also removes the drop-in, then run {again} again.");
        },
    );
    Ok(Outcome::Fine)
}

/// Returns the requested layers after checking that they accept the options.
fn options(
    arguments: &InstallArguments,
    dir: &Path,
    source: &DropInSource,
    context: &Context,
    timeouts: &Timeouts,
) -> Result<Option<LayerOptions>, Refusal> {
    if arguments.layers.is_empty() {
        return Ok(None);
    }
    let names: Vec<&OsStr> = arguments.layers.iter().map(OsString::as_os_str).filter(|name| !name.is_empty()).collect();
    let layers = names.join(OsStr::new(","));
    let checked = usable_layers(Some(&layers), &source.file, context)?;
    let tuned = arguments.tuned.as_deref().map(absolute_file).transpose()?.map(PathBuf::from);
    let installed = || Some(DropInFiles::in_dir(dir).tuned).filter(|file| file.is_file());
    check(&checked, tuned.clone().or_else(installed).as_deref(), timeouts)?;
    Ok(Some(LayerOptions { layers, tuned }))
}

/// Returns an error if a layer would fail with these rankings, or without any, in programs that leave CUDNN_TUNED
/// unset.
fn check(layers: &[(String, PathBuf)], tuned: Option<&Path>, timeouts: &Timeouts) -> Result<(), Refusal> {
    let ask = |tuned: OsString| layer_check::check(layers, &[(TUNED_VARIABLE, tuned)], timeouts);
    // Layers treat an empty variable as unset.
    let Some(file) = tuned else { return ask(OsString::new()) };
    if std::env::join_paths([file]).is_ok() {
        return ask(file.into());
    }
    // The variable would split this path, so the file gets another name, as next to the drop-in.
    let cannot_read = |error: std::io::Error| Refusal::new(format!("cannot read {}: {error}", file.printable()));
    let dir = tempfile::tempdir().map_err(cannot_read)?;
    let named = dir.path().join(TUNED_FILE);
    symlink(file, &named).or_else(|_| std::fs::copy(file, &named).map(drop)).map_err(cannot_read)?;
    ask(named.clone().into()).map_err(|refusal| {
        let message = refusal.message.replace(&named.printable(), &file.printable());
        Refusal { message, ..refusal }
    })
}

pub(crate) fn uninstall(place: &Place, context: &Context, format: Format) -> CommandResult {
    let dir = target::find(place, DropInCommand::Uninstall, context)?;
    let ChangedDropIn { change, state } = &change::uninstall(&dir, &context.host)?;
    format.report(
        || value(*change, state, &dir),
        || {
            let (cudnn, shim) = (state.title(&dir), Library::Shim);
            match change {
                DropInChange::None => outln!("The drop-in is not in front of {cudnn}; there is nothing to remove."),
                DropInChange::Cleaned if state.shim == Shim::Missing => {
                    outln!("Removed the drop-in's leftover files from {}.", dir.printable());
                }
                DropInChange::Cleaned => {
                    outln!("NVIDIA's {shim} was in front of {cudnn} already; removed the drop-in's leftover files.");
                }
                _ => outln!("NVIDIA's {shim} is in front of {cudnn} again."),
            }
        },
    );
    Ok(Outcome::Fine)
}

fn value(change: DropInChange, state: &DropInState, dir: &Path) -> Value {
    json!({
        "directory": dir.to_string_lossy(),
        "change": match change {
            DropInChange::None => "none",
            DropInChange::Installed => "installed",
            DropInChange::Updated => "updated",
            DropInChange::Configured => "configured",
            DropInChange::Restored => "restored",
            DropInChange::Cleaned => "cleaned",
        },
        "in_front": match state.shim {
            Shim::DropIn => "drop-in",
            Shim::Nvidia => "NVIDIA",
            Shim::Missing | Shim::Other(_) => "none",
        },
        "version": state.version().map(|version| version.to_string()),
        "layers": state.layers == Layers::Ours,
        "layers_on": state.list,
    })
}

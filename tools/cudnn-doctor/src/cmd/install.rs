//! `install` and `uninstall`: the drop-in in front of the cuDNN of a Python environment, or in one directory.

use std::path::{Path, PathBuf};

use cudnn_probe::Library;
use serde_json::{Value, json};

use crate::context::Context;
use crate::drop_in::change::{self, Change, Done};
use crate::drop_in::standing::{Layers, Shim, Standing};
use crate::drop_in::target::{self, Command, Named};
use crate::drop_in::{KEPT, Refusal, VERSION, source};
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln};

/// The directory of cuDNN that a command is about.
#[derive(clap::Args)]
struct Where {
    /// A directory of cuDNN, or the root of what has one, such as an environment. Default: the active environment.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The environment of this Python: its interpreter, or its root.
    #[arg(long, value_name = "PATH", conflicts_with = "dir")]
    python: Option<PathBuf>,
}

impl Where {
    fn named(&self) -> Named<'_> {
        match (&self.dir, &self.python) {
            (Some(dir), _) => Named::Dir(dir),
            (None, Some(python)) => Named::Python(python),
            (None, None) => Named::Nothing,
        }
    }
}

/// The options of `install`.
#[derive(clap::Args)]
pub(crate) struct InstallArguments {
    #[command(flatten)]
    place: Where,
    /// The directory with the drop-in. Default: what came with this cudnn-doctor.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

/// The options of `uninstall`.
#[derive(clap::Args)]
pub(crate) struct UninstallArguments {
    #[command(flatten)]
    place: Where,
}

pub(crate) fn install(arguments: &InstallArguments, context: &Context, format: Format) -> Outcome {
    let from = arguments.from.as_deref();
    let done = target::find(arguments.place.named(), Command::Install { from }, context).and_then(|dir| {
        let source = source::find(from)?;
        Ok((change::install(&dir, &source, &context.host)?, dir))
    });
    answer(done, format, |done, dir| installed(done, dir, from))
}

pub(crate) fn uninstall(arguments: &UninstallArguments, context: &Context, format: Format) -> Outcome {
    let done = target::find(arguments.place.named(), Command::Uninstall, context)
        .and_then(|dir| Ok((change::uninstall(&dir, &context.host)?, dir)));
    answer(done, format, uninstalled)
}

fn answer(done: Result<(Done, PathBuf), Refusal>, format: Format, text: impl Fn(&Done, &Path)) -> Outcome {
    match (done, format) {
        (Err(refusal), format) => fail(format, refusal),
        (Ok((done, dir)), Format::Json) => {
            document(&value(&done, &dir));
            Outcome::Fine
        }
        (Ok((done, dir)), Format::Text) => {
            text(&done, &dir);
            Outcome::Fine
        }
    }
}

fn value(done: &Done, dir: &Path) -> Value {
    let Done { change, standing } = done;
    json!({
        "schema": SCHEMA,
        "directory": dir.to_string_lossy(),
        "change": match change {
            Change::None => "none",
            Change::Installed => "installed",
            Change::Updated => "updated",
            Change::Restored => "restored",
            Change::Cleaned => "cleaned",
        },
        "in_front": match standing.shim {
            Shim::DropIn => "drop-in",
            Shim::Nvidia => "NVIDIA",
            Shim::Missing | Shim::Other(_) => "none",
        },
        "version": standing.version().map(|version| version.to_string()),
        "layers": standing.layers == Layers::Ours,
    })
}

/// `cuDNN 9.19.0 in DIR`.
fn cudnn(standing: &Standing, dir: &Path) -> String {
    let version = standing.version().map_or(String::new(), |version| format!(" {version}"));
    format!("cuDNN{version} in {}", dir.printable())
}

fn installed(done: &Done, dir: &Path, from: Option<&Path>) {
    let Done { change, standing } = done;
    let cudnn = cudnn(standing, dir);
    match change {
        Change::None => outln!("The drop-in {VERSION} is already in front of {cudnn}."),
        Change::Updated => outln!("The drop-in {VERSION} is in front of {cudnn}, in place of another drop-in."),
        _ => outln!("The drop-in {VERSION} is in front of {cudnn}."),
    }
    outln!("NVIDIA's {} is beside it, as {KEPT}.", Library::Shim);
    if standing.layers != Layers::Ours {
        outln!("Without layers: the drop-in came without their library.");
    }
    outln!("To take the drop-in away: {}", Command::Uninstall.line(dir));
    let again = Command::Install { from }.line(dir);
    outln!("When cuDNN is upgraded, its installer takes it away too: then run {again} again.");
}

fn uninstalled(done: &Done, dir: &Path) {
    let Done { change, standing } = done;
    let cudnn = cudnn(standing, dir);
    match change {
        Change::None => outln!("The drop-in is not in front of {cudnn}; nothing is left of it."),
        Change::Cleaned if standing.shim == Shim::Missing => {
            outln!("What the drop-in has left in {} is gone.", dir.printable())
        }
        Change::Cleaned => {
            outln!("NVIDIA's {} was in front of {cudnn} already; what the drop-in has left is gone.", Library::Shim)
        }
        _ => outln!("NVIDIA's {} is in front of {cudnn} again.", Library::Shim),
    }
}

//! `devices`: shows the descriptions of GPUs that cuDNN can plan for on any machine.

use std::path::PathBuf;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, outln};
use cudnn_cli::subprocess::Timeouts;
use cudnn_cli::table::table;
use cudnn_replay::device::{compute_capability, name};
use cudnn_replay::known_devices::{KnownDevice, known_devices};
use serde_json::json;

use crate::{devices, plan_worker};

/// The options of `devices`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the description of this device: a known name, or a file to check.
    #[arg(value_name = "NAME|FILE")]
    device: Option<PathBuf>,
    /// Print cuDNN's description of the first GPU of this machine.
    #[arg(long, conflicts_with = "device")]
    here: bool,
}

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    match &arguments.device {
        Some(device) => print(&devices::select(device)?.description, format),
        None if arguments.here => {
            let description = plan_worker::describe_gpu(timeouts)
                .map_err(|reason| format!("cannot describe a GPU of this machine: {}", reason.printable()))?;
            print(&description, format);
        }
        None => list(format),
    }
    Ok(Outcome::Fine)
}

/// Prints a description unchanged, because another program reads it.
fn print(description: &str, format: Format) {
    format.report(|| json!({ "device": description }), || outln!("{}", description.printable()));
}

fn list(format: Format) {
    let known = known_devices();
    let facts = |known: &KnownDevice| {
        let description = known.description();
        [name(&description), compute_capability(&description)].map(Option::unwrap_or_default)
    };
    let value = |known: &KnownDevice| {
        let [gpu, compute_capability] = facts(known);
        json!({
            "name": known.name,
            "gpu": gpu,
            "compute_capability": compute_capability,
            "is_measured": known.is_measured,
            "source": known.source,
        })
    };
    format.report(
        || json!({ "devices": known.iter().map(value).collect::<Vec<_>>() }),
        || {
            let mut table = table(["name", "GPU", "compute capability", "description"]);
            for known in &known {
                let [gpu, compute_capability] = facts(known);
                let origin = if known.is_measured { "measured" } else { "approximate" };
                table.add_row([known.name.clone(), gpu, compute_capability, origin.to_owned()]);
            }
            outln!("{table}");
        },
    );
}

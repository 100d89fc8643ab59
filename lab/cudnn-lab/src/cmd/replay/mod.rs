//! `replay`: replays the graphs of a capture, and compares releases of cuDNN, or GPUs.
//!
//! | module | purpose |
//! | --- | --- |
//! | `arguments` | the options |
//! | `baseline` | reads the reports of an earlier replay |
//! | `compare` | compares two releases, or this cuDNN with an earlier replay |
//! | `devices` | plans for several described devices |
//! | `gate`, `junit` | make a comparison a check for CI |
//! | `releases` | selects the releases of a comparison |
//! | `session` | replays the graphs in turn |
//! | `single` | replays all graphs with one cuDNN |
//! | `text` | prints the reports |

mod arguments;
mod baseline;
mod compare;
mod devices;
mod gate;
mod junit;
mod releases;
mod session;
mod single;
mod text;

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, continue_without_output, remark};
use cudnn_cli::subprocess::Timeouts;
use cudnn_replay::replay::page;

use crate::captures;
use crate::devices::select;
use crate::output_file::{Output, OutputKind};
use compare::Outputs;
use gate::{Gate, JUNIT};
use session::ReplaySession;

pub(crate) use arguments::Arguments;

const PAGE: OutputKind = OutputKind { name: "a page of `replay`", is_start: page::is_page };

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let file = captures::read_all(&arguments.files)?;
    let Gate { baseline, junit, .. } = &arguments.gate;
    let inputs = arguments.files.iter().chain(&arguments.device).chain(baseline);
    let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
    let output = |file, kind| Output { file, kind, inputs: &inputs, force: arguments.replace.force };
    let html = arguments.html.as_ref().map(|file| output(file, &PAGE));
    let junit = junit.as_ref().map(|file| output(file, &JUNIT));
    html.iter().chain(&junit).try_for_each(Output::check)?;
    if html.iter().zip(&junit).any(|(html, junit)| html.is_same_file(junit)) {
        return Err("--html and --junit name the same file".into());
    }
    let outputs = Outputs { html, junit };
    if outputs.html.is_some() || outputs.junit.is_some() {
        continue_without_output();
    }
    let mut graphs = file.graphs(&arguments.graph, |_| true)?;
    if arguments.needs_values() && graphs.iter().all(|graph| graph.values.is_empty()) {
        let name = file.names();
        return Err(format!("{name}: the capture contains no values of tensors; see CUDNN_CAPTURE_DATA").into());
    }
    for graph in &graphs {
        if let Some(left_out) = &graph.left_out {
            remark(format_args!("note: {}: {}", graph.id.printable(), left_out.printable()));
        }
    }
    let devices = arguments.device.iter().map(|name| select(name)).collect::<Result<Vec<_>, _>>()?;
    if let [device] = devices.as_slice() {
        graphs.iter_mut().for_each(|graph| graph.plan_for(&device.description));
    }
    if devices.len() > 1 && (arguments.compare.is_some() || baseline.is_some()) {
        let option = if baseline.is_some() { "--baseline" } else { "--compare" };
        return Err(format!("{option} accepts one --device, not several").into());
    }
    let select_one = |name| releases::select_one(name, !devices.is_empty(), format);
    let cudnn = arguments.cudnn.as_deref().map(select_one).transpose()?;
    let cudnn = cudnn.as_ref().map(|release| release.dir.as_path());
    let session = ReplaySession { arguments, graphs: &graphs, file: &file, timeouts, format };
    let outcome = match (arguments.compare.as_deref(), baseline) {
        (Some([before, after]), _) => compare::releases(&session, [before, after], &outputs)?,
        (_, Some(baseline)) => compare::with_baseline(&session, baseline, cudnn, &outputs)?,
        _ if devices.len() > 1 => devices::compare(&session, &devices, cudnn)?,
        _ => single::replay(&session, cudnn)?,
    };
    Ok(outcome.max(captures::outcome(&file.problems)))
}

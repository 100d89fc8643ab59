//! `replay`: replays the graphs of a capture, and compares two releases of cuDNN.
//!
//! | module | purpose |
//! | --- | --- |
//! | `releases` | selects the releases of a comparison |
//! | `devices` | plans for several described devices |
//! | `text` | prints the reports |

mod devices;
mod releases;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, remark};
use cudnn_cli::subprocess::Timeouts;
use cudnn_replay::replay::capture::{Captured, graphs};
use cudnn_replay::replay::comparison::{self, Row, status};
use cudnn_replay::replay::{DataSet, Engines, Report, Request, page};
use serde_json::json;

use crate::captures::{self, CaptureFile};
use crate::devices::select;
use crate::output_file::{Kind, Output, Replace};
use crate::replay_child;

/// The pages of `--html`.
const PAGE: Kind = Kind { name: "a page of `replay`", is_start: page::is_page, may_be_device: true };

/// The options of `replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The capture.
    file: PathBuf,
    /// Compare two releases: names such as 9.10 or cu12-9.10.2, which are fetched if necessary, or directories.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Option<Vec<String>>,
    /// Replay with this release instead of the cuDNN that programs would load: a name or directory, as for --compare.
    #[arg(long, value_name = "RELEASE", conflicts_with = "compare")]
    cudnn: Option<String>,
    /// Only plan, for this GPU, which is not needed here: a name in `cudnn-lab devices`, or a file that `cudnn-lab devices
    /// --here` has written on a machine with the GPU. Can be repeated without --compare, to compare GPUs.
    #[arg(long, value_name = "NAME|FILE")]
    device: Vec<PathBuf>,
    /// Replay only the graphs whose ids begin with this. Can be repeated.
    #[arg(long, value_name = "ID")]
    graph: Vec<String>,
    /// The engines to try: the first one that works, the captured one with its knobs, or all.
    #[arg(long, value_enum, default_value_t = EngineChoice::First)]
    engines: EngineChoice,
    /// The values of the inputs.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "integers,normal,adversarial")]
    data: Vec<DataChoice>,
    /// Execute each plan this number of times and compare the bits.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Execute only graphs whose tensors need at most this memory, in GiB. The host needs up to five times as much, and
    /// up to 10 GiB for the reference.
    #[arg(long, value_name = "GIB", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    memory: u16,
    /// Measure the time of an execution.
    #[arg(long)]
    time: bool,
    /// Write the comparison as a web page to this file.
    #[arg(long, value_name = "FILE", requires = "compare")]
    html: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineChoice {
    First,
    Captured,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataChoice {
    Integers,
    Normal,
    Adversarial,
    Captured,
}

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let file = captures::read(&arguments.file)?;
    let inputs: Vec<&Path> = [&arguments.file].into_iter().chain(&arguments.device).map(PathBuf::as_path).collect();
    let html = arguments.html.as_ref();
    let html = html.map(|file| Output { file, kind: &PAGE, inputs: &inputs, force: arguments.replace.force });
    html.as_ref().map_or(Ok(()), Output::check)?;
    let mut graphs = graphs(&file.capture);
    if graphs.is_empty() {
        return Err(format!("{}: the capture contains no graph", arguments.file.printable()).into());
    }
    let is_of = |graph: &Captured, id: &str| graph.id.starts_with(id);
    if let Some(id) = arguments.graph.iter().find(|id| !graphs.iter().any(|graph| is_of(graph, id))) {
        return Err(captures::no_graph(&arguments.file, format_args!("the capture has no graph {id:?}")).into());
    }
    if !arguments.graph.is_empty() {
        graphs.retain(|graph| arguments.graph.iter().any(|id| is_of(graph, id)));
    }
    if arguments.data == [DataChoice::Captured] && graphs.iter().all(|graph| graph.values.is_empty()) {
        let name = arguments.file.printable();
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
    let cudnn = arguments.cudnn.as_deref().map(|name| releases::select_one(name, format)).transpose()?;
    let cudnn = cudnn.as_ref().map(|release| release.dir.as_path());
    let outcome = match (arguments.compare.as_deref(), devices.as_slice()) {
        (Some(_), [_, _, ..]) => return Err("--compare accepts one --device, not several".into()),
        (Some([before, after]), _) => {
            compare(arguments, html.as_ref(), &graphs, [before, after], &file, timeouts, format)?
        }
        (_, [_, _, ..]) => devices::compare(arguments, &devices, &graphs, &file, cudnn, timeouts, format)?,
        _ => replay_all(arguments, &graphs, &file, cudnn, timeouts, format)?,
    };
    Ok(outcome.max(file.outcome()))
}

/// Replays all graphs with one cuDNN.
fn replay_all(
    arguments: &Arguments,
    graphs: &[Captured],
    file: &CaptureFile,
    cudnn: Option<&Path>,
    timeouts: &Timeouts,
    format: Format,
) -> CommandResult {
    let mut reports = Vec::new();
    for graph in graphs {
        reports.push((graph, replay(arguments, graph, file, cudnn, timeouts)?));
    }
    format.report(
        || {
            let graph = |(graph, report): &(&Captured, Report)| json!({ "graph": graph.id, "label": graph.label, "report": report });
            json!({ "problems": file.problems, "graphs": reports.iter().map(graph).collect::<Vec<_>>() })
        },
        || text::print_reports(&reports),
    );
    let is_fine = |report: &Report| {
        let mut runs = report.plans.iter().flat_map(|plan| &plan.runs);
        let is_complete = status(report) == "SUCCESS" && report.problems.is_empty();
        is_complete && runs.all(|run| run.is_repeatable && run.damage.is_empty())
    };
    let all_fine = reports.iter().all(|(_, report)| is_fine(report));
    Ok(if all_fine { Outcome::Fine } else { Outcome::Warnings })
}

/// Replays all graphs with two releases.
fn compare(
    arguments: &Arguments,
    html: Option<&Output<'_>>,
    graphs: &[Captured],
    names: [&str; 2],
    file: &CaptureFile,
    timeouts: &Timeouts,
    format: Format,
) -> CommandResult {
    let compared = releases::select(names, format)?;
    let [before_dir, after_dir] = compared.each_ref().map(|release| release.dir.as_path());
    let mut rows = Vec::new();
    for graph in graphs {
        let before = replay(arguments, graph, file, Some(before_dir), timeouts)?;
        let after = replay(arguments, graph, file, Some(after_dir), timeouts)?;
        let engines = engines(arguments, graph).unwrap_or_default();
        rows.push(Row::new(graph.id.clone(), graph.label.clone(), &engines, before, after));
    }
    comparison::sort(&mut rows);
    let worse = rows.iter().filter(|row| row.is_worse()).count();
    let failing =
        rows.iter().filter(|row| [&row.before, &row.after].iter().all(|report| status(report) != "SUCCESS")).count();
    let titles = releases::titles(&compared);
    let place = text::place_of(rows.iter().flat_map(|row| [&row.before, &row.after]));
    let notes: Vec<String> = place.into_iter().chain(releases::cuda_note(&compared)).collect();
    let [before, after] = compared.each_ref().map(releases::Compared::value);
    format.report(
        || json!({ "problems": file.problems, "before": before, "after": after, "notes": notes, "worse": worse, "graphs": rows }),
        || text::print_rows(&rows, &titles, &notes, [worse, failing]),
    );
    if let Some(html) = html {
        let [before, after] = &titles;
        let page = page::html(&rows, &page::About { before, after, notes: &notes, problems: &file.problems });
        html.write(|file| file.write_all(page.as_bytes()))?;
    }
    if failing == rows.len() {
        remark("error: no graph works with either release, so nothing was compared");
        return Ok(Outcome::Failed);
    }
    Ok(if worse == 0 { Outcome::Fine } else { Outcome::Warnings })
}

/// Returns the engines to try. `None` if the capture contains no engine for the graph.
fn engines(arguments: &Arguments, captured: &Captured) -> Option<Engines> {
    match arguments.engines {
        EngineChoice::First => Some(Engines::First),
        EngineChoice::All => Some(Engines::All),
        EngineChoice::Captured => captured.plan.as_ref().and_then(|plan| plan.engine.clone()).map(Engines::Forced),
    }
}

/// Replays a graph in a child process, with the cuDNN in this directory or with the one that the loader finds.
fn replay(
    arguments: &Arguments,
    captured: &Captured,
    file: &CaptureFile,
    cudnn: Option<&Path>,
    timeouts: &Timeouts,
) -> Result<Report, String> {
    let Some(engines) = engines(arguments, captured) else {
        let reason = Some("the capture contains no engine for this graph".to_owned());
        return Ok(Report { status: "SKIPPED".to_owned(), reason, ..Report::default() });
    };
    let data = |choice: &DataChoice| match choice {
        DataChoice::Integers => DataSet::Integers,
        DataChoice::Normal => DataSet::Normal,
        DataChoice::Adversarial => DataSet::Adversarial,
        DataChoice::Captured => DataSet::Captured,
    };
    let data: Vec<DataSet> = arguments.data.iter().map(data).collect();
    let request = Request {
        engines,
        max_bytes: captures::gibibytes(arguments.memory),
        repeat: arguments.repeat,
        time: arguments.time,
        ..captured.request(file.path(), &data)
    };
    replay_child::run(&request, cudnn, timeouts)
}

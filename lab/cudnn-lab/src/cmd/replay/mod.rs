//! `replay`: replays the graphs of captures, and compares two releases of cuDNN.
//!
//! | module | purpose |
//! | --- | --- |
//! | `releases` | selects the releases of a comparison |
//! | `baseline` | reads the reports of an earlier replay |
//! | `junit` | writes a comparison for CI services |
//! | `gate` | the options for CI |
//! | `text` | prints the reports |

mod baseline;
mod gate;
mod junit;
mod releases;
mod text;

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, Outcome, remark};
use cudnn_cli::subprocess::Timeouts;
use cudnn_replay::replay::capture::Captured;
use cudnn_replay::replay::comparison::{self, Row, status};
use cudnn_replay::replay::{DataSet, Engines, Report, Request, page};
use serde_json::{Value, json};

use crate::captures::{self, CaptureFiles};
use crate::output_file::{Kind, Output, Replace};
use crate::replay_child;
use gate::{Gate, JUNIT};

/// The pages of `--html`.
const PAGE: Kind = Kind { name: "a page of `replay`", is_start: page::is_page, may_be_device: true };

/// The options of `replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The captures, for example of all processes of a program. Each graph is replayed once.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Compare two releases: names such as 9.10 or cu12-9.10.2, which are fetched if necessary, or directories.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], group = "comparison")]
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
    #[arg(long, value_name = "FILE", requires = "comparison")]
    html: Option<PathBuf>,
    #[command(flatten)]
    gate: Gate,
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
    let file = captures::read_all(&arguments.files)?;
    let Gate { baseline, junit, .. } = &arguments.gate;
    let inputs: Vec<&Path> = arguments.files.iter().chain(baseline).map(PathBuf::as_path).collect();
    let output = |file, kind| Output { file, kind, inputs: &inputs, force: arguments.replace.force };
    let html = arguments.html.as_ref().map(|file| output(file, &PAGE));
    let junit = junit.as_ref().map(|file| output(file, &JUNIT));
    html.iter().chain(&junit).try_for_each(Output::check)?;
    let mut graphs = file.graphs();
    if graphs.is_empty() {
        return Err(format!("{}: the capture contains no graph", file.names()).into());
    }
    let is_of = |graph: &Captured, id: &str| graph.id.starts_with(id);
    if let Some(id) = arguments.graph.iter().find(|id| !graphs.iter().any(|graph| is_of(graph, id))) {
        return Err(file.no_graph(format_args!("the capture has no graph {id:?}")).into());
    }
    if !arguments.graph.is_empty() {
        graphs.retain(|graph| arguments.graph.iter().any(|id| is_of(graph, id)));
    }
    if arguments.data == [DataChoice::Captured] && graphs.iter().all(|graph| graph.values.is_empty()) {
        let name = file.names();
        return Err(format!("{name}: the capture contains no values of tensors; see CUDNN_CAPTURE_DATA").into());
    }
    for graph in &graphs {
        if let Some(left_out) = &graph.left_out {
            remark(format_args!("note: {}: {}", graph.id.printable(), left_out.printable()));
        }
    }
    let comparison = match (arguments.compare.as_deref(), baseline) {
        (Some([before, after]), _) => compare(arguments, &graphs, [before, after], &file, timeouts, format)?,
        (_, Some(baseline)) => compare_with_baseline(arguments, &graphs, baseline, &file, timeouts)?,
        _ => return Ok(replay_all(arguments, &graphs, &file, timeouts, format)?.max(file.outcome())),
    };
    let outcome = conclude(arguments, comparison, html.as_ref(), junit.as_ref(), &file, format)?;
    Ok(outcome.max(file.outcome()))
}

/// Returns the options that must be equal for a comparison with a baseline, for `--json`.
fn options(arguments: &Arguments) -> Value {
    fn name(choice: &impl ValueEnum) -> String {
        choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
    let data: Vec<String> = arguments.data.iter().map(name).collect();
    let Arguments { engines, repeat, memory, time, .. } = arguments;
    json!({ "engines": name(engines), "data": data, "repeat": repeat, "memory": memory, "time": time })
}

/// Replays all graphs with one cuDNN.
fn replay_all(
    arguments: &Arguments,
    graphs: &[Captured],
    file: &CaptureFiles,
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
            json!({ "problems": file.problems, "options": options(arguments), "graphs": reports.iter().map(graph).collect::<Vec<_>>() })
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

/// The reports about two releases.
struct Comparison {
    rows: Vec<Row>,
    titles: [String; 2],
    /// Facts about both releases.
    notes: Vec<String>,
    /// The releases for `--json`.
    values: [Value; 2],
}

/// Replays all graphs with two releases.
fn compare(
    arguments: &Arguments,
    graphs: &[Captured],
    names: [&str; 2],
    file: &CaptureFiles,
    timeouts: &Timeouts,
    format: Format,
) -> Result<Comparison, Box<dyn Error>> {
    let compared = releases::select(names, format)?;
    let [before_dir, after_dir] = compared.each_ref().map(|release| release.dir.as_path());
    let mut rows = Vec::new();
    for graph in graphs {
        let before = replay(arguments, graph, file, Some(before_dir), timeouts)?;
        let after = replay(arguments, graph, file, Some(after_dir), timeouts)?;
        rows.push(row(arguments, graph, before, after));
    }
    Ok(Comparison {
        rows,
        titles: releases::titles(&compared),
        notes: releases::cuda_note(&compared).into_iter().collect(),
        values: compared.each_ref().map(releases::Compared::value),
    })
}

/// Replays all graphs with the cuDNN that the loader finds, and compares with the reports of an earlier replay.
fn compare_with_baseline(
    arguments: &Arguments,
    graphs: &[Captured],
    baseline: &Path,
    file: &CaptureFiles,
    timeouts: &Timeouts,
) -> Result<Comparison, Box<dyn Error>> {
    let earlier = baseline::read(baseline, &options(arguments), graphs)?;
    let mut rows = Vec::new();
    for (graph, before) in graphs.iter().zip(earlier) {
        let after = replay(arguments, graph, file, None, timeouts)?;
        baseline::check_place(&graph.id, &before, &after)?;
        rows.push(row(arguments, graph, before, after));
    }
    let version = |report: fn(&Row) -> &Report| {
        rows.iter().map(report).find(|report| report.cudnn > 0).map(|report| text::version(report.cudnn))
    };
    let versions = [version(|row| &row.before), version(|row| &row.after)];
    let value =
        |name: &str, version| json!({ "name": name, "version": version, "cuda_major": null, "directory": null });
    let [before, after] = versions.clone().map(Option::unwrap_or_default);
    Ok(Comparison {
        titles: [format!("{before} (baseline)"), format!("{after} (now)")].map(|title| title.trim().to_owned()),
        notes: Vec::new(),
        values: [value(&baseline.to_string_lossy(), &versions[0]), value("installed", &versions[1])],
        rows,
    })
}

fn row(arguments: &Arguments, graph: &Captured, before: Report, after: Report) -> Row {
    let engines = engines(arguments, graph).unwrap_or_default();
    Row::new(graph.id.clone(), graph.label.clone(), &engines, before, after)
}

/// Prints a comparison, and writes it to files.
fn conclude(
    arguments: &Arguments,
    comparison: Comparison,
    html: Option<&Output<'_>>,
    junit: Option<&Output<'_>>,
    file: &CaptureFiles,
    format: Format,
) -> CommandResult {
    let Comparison { mut rows, titles, notes, values: [before, after] } = comparison;
    comparison::sort(&mut rows);
    let worse = rows.iter().filter(|row| row.is_worse()).count();
    let failing =
        rows.iter().filter(|row| [&row.before, &row.after].iter().all(|report| status(report) != "SUCCESS")).count();
    let place = text::place_of(rows.iter().flat_map(|row| [&row.before, &row.after]));
    let notes: Vec<String> = place.into_iter().chain(notes).collect();
    format.report(
        || json!({ "problems": file.problems, "before": before, "after": after, "notes": notes, "worse": worse, "graphs": rows }),
        || text::print_rows(&rows, &titles, &notes, [worse, failing]),
    );
    if let Some(html) = html {
        let [before, after] = &titles;
        let page = page::html(&rows, &page::About { before, after, notes: &notes, problems: &file.problems });
        html.write(|file| file.write_all(page.as_bytes()))?;
    }
    let fails = |row: &Row| arguments.gate.fails(row);
    if let Some(junit) = junit {
        let xml = junit::xml(&titles, &rows, fails, &file.problems);
        junit.write(|file| file.write_all(xml.as_bytes()))?;
    }
    if failing == rows.len() {
        remark("error: no graph works with either release, so nothing was compared");
        return Ok(Outcome::Failed);
    }
    Ok(if rows.iter().any(fails) { Outcome::Warnings } else { Outcome::Fine })
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
    file: &CaptureFiles,
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
        ..captured.request(file.path_of(captured), &data)
    };
    replay_child::run(&request, cudnn, timeouts)
}

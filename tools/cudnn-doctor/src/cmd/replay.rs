//! `replay`: replays the graphs of a capture, and compares two releases of cuDNN.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use cudnn_fetch::{Network, RELEASES, Release};
use cudnn_replay::replay::capture::{Captured, graphs};
use cudnn_replay::replay::comparison::{
    self, Row, error_text, has_same_bits, largest_error, rounding_notes, status, working_plan,
};
use cudnn_replay::replay::{DataSet, Engines, Report, Request, page};
use serde_json::json;

use super::fetch::fetch_libraries;
use crate::captures;
use crate::escape::Printable;
use crate::output::{CommandResult, Format, Outcome, count, outln};
use crate::replay_child;
use crate::subprocess::Timeouts;
use crate::table::table;

/// The options of `replay`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The capture.
    file: PathBuf,
    /// Compare two releases: names such as 9.10 or cu12-9.10.2, which are fetched if necessary, or directories.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Option<Vec<String>>,
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
    /// Measure the time of an execution.
    #[arg(long)]
    time: bool,
    /// Write the comparison as a web page to this file.
    #[arg(long, value_name = "FILE", requires = "compare")]
    html: Option<PathBuf>,
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
    let name = arguments.file.printable();
    let capture = captures::read(&arguments.file)?;
    if let Some(html) = &arguments.html {
        captures::check_output(html, &arguments.file)?;
    }
    let mut graphs = graphs(&capture);
    if graphs.is_empty() {
        return Err(format!("{name}: the capture contains no graph").into());
    }
    let is_of = |graph: &Captured, id: &str| graph.id.starts_with(id);
    if let Some(id) = arguments.graph.iter().find(|id| !graphs.iter().any(|graph| is_of(graph, id))) {
        return Err(format!("{name}: the capture contains no graph {}", id.printable()).into());
    }
    if !arguments.graph.is_empty() {
        graphs.retain(|graph| arguments.graph.iter().any(|id| is_of(graph, id)));
    }
    if arguments.data == [DataChoice::Captured] && graphs.iter().all(|graph| graph.values.is_empty()) {
        return Err(format!("{name}: the capture contains no values of tensors; see CUDNN_CAPTURE_DATA").into());
    }
    let problems: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
    match arguments.compare.as_deref() {
        Some([before, after]) => compare(arguments, &graphs, [before, after], &problems, timeouts, format),
        _ => replay(arguments, &graphs, &problems, timeouts, format),
    }
}

/// Replays all graphs with one cuDNN.
fn replay(
    arguments: &Arguments,
    graphs: &[Captured],
    problems: &[String],
    timeouts: &Timeouts,
    format: Format,
) -> CommandResult {
    let mut reports = Vec::new();
    for graph in graphs {
        reports.push((graph, replay_child::run(&request(arguments, graph), None, timeouts)?));
    }
    format.report(
        || {
            let graph = |(graph, report): &(&Captured, Report)| json!({ "graph": graph.id, "label": graph.label, "report": report });
            json!({ "problems": problems, "graphs": reports.iter().map(graph).collect::<Vec<_>>() })
        },
        || {
            if let Some((_, report)) = reports.iter().find(|(_, report)| report.cudnn > 0) {
                outln!("{}", heading(report));
            }
            let header = ["graph", "status", "engine", "proposals", "engines", "workspace", "build", "time", "error"];
            let mut lines = table(header);
            for (graph, report) in &reports {
                let [status, engine, workspace, build, time, error] = cells(report);
                let proposals = report.proposals.map_or(String::new(), |[a, fallback]| format!("{a}+{fallback}"));
                let supporting = report.supporting.map_or(String::new(), |supporting| supporting.to_string());
                let graph = graph.id.printable();
                lines.add_row([graph, status, engine, proposals, supporting, workspace, build, time, error]);
            }
            outln!("{lines}");
            for (graph, report) in &reports {
                outln!("{}: {}{}", graph.id.printable(), graph.label.printable(), notes(report));
            }
        },
    );
    let is_fine = |report: &Report| {
        let mut runs = report.plans.iter().flat_map(|plan| &plan.runs);
        status(report) == "SUCCESS" && runs.all(|run| run.is_repeatable && run.damage.is_empty())
    };
    let all_fine = reports.iter().all(|(_, report)| is_fine(report));
    Ok(if all_fine { Outcome::Fine } else { Outcome::Warnings })
}

/// Replays all graphs with two releases.
fn compare(
    arguments: &Arguments,
    graphs: &[Captured],
    releases: [&str; 2],
    problems: &[String],
    timeouts: &Timeouts,
    format: Format,
) -> CommandResult {
    let [before_dir, after_dir] = [libraries(releases[0], format)?, libraries(releases[1], format)?];
    let mut rows = Vec::new();
    for graph in graphs {
        let request = request(arguments, graph);
        let before = replay_child::run(&request, Some(&before_dir), timeouts)?;
        let after = replay_child::run(&request, Some(&after_dir), timeouts)?;
        rows.push(Row::new(graph.id.clone(), graph.label.clone(), before, after));
    }
    comparison::sort(&mut rows);
    let worse = rows.iter().filter(|row| row.is_worse()).count();
    format.report(
        || json!({ "problems": problems, "before": releases[0], "after": releases[1], "worse": worse, "graphs": rows }),
        || print_rows(&rows, releases, worse),
    );
    if let Some(file) = &arguments.html {
        std::fs::write(file, page::html(&rows, releases[0], releases[1]))
            .map_err(|error| format!("{}: {error}", file.printable()))?;
    }
    Ok(if worse == 0 { Outcome::Fine } else { Outcome::Warnings })
}

fn print_rows(rows: &[Row], releases: [&str; 2], worse: usize) {
    let known = rows.iter().flat_map(|row| [&row.before, &row.after]).find(|report| report.cudnn > 0);
    if let Some(report) = known {
        outln!("{}", place(report));
    }
    let mut lines = table(["graph", "release", "status", "engine", "workspace", "build", "time", "error", "same bits"]);
    for row in rows {
        let same = has_same_bits(&row.before, &row.after).map_or("", |same| if same { "yes" } else { "no" });
        for (name, report, graph, same) in
            [(releases[0], &row.before, row.graph.printable(), same), (releases[1], &row.after, String::new(), "")]
        {
            let [status, engine, workspace, build, time, error] = cells(report);
            lines.add_row([graph, name.printable(), status, engine, workspace, build, time, error, same.to_owned()]);
        }
    }
    outln!("{lines}");
    for row in rows {
        outln!("{}: {}", row.graph.printable(), row.label.printable());
        for change in &row.changes {
            let mark = if change.is_worse { "worse" } else { "changed" };
            let aspect = format!("{:?}", change.aspect).to_lowercase();
            outln!("  {mark}: {aspect} {}", change.text.printable());
        }
    }
    outln!("{} became worse, of {}", count(worse, "graph"), rows.len());
}

fn request(arguments: &Arguments, captured: &Captured) -> Request {
    let engine = captured.plan.as_ref().and_then(|plan| plan.engine.clone());
    let data = |choice: &DataChoice| match choice {
        DataChoice::Integers => DataSet::Integers,
        DataChoice::Normal => DataSet::Normal,
        DataChoice::Adversarial => DataSet::Adversarial,
        DataChoice::Captured => DataSet::Captured,
    };
    let data: Vec<DataSet> = arguments.data.iter().map(data).collect();
    Request {
        engines: match (arguments.engines, engine) {
            (EngineChoice::All, _) => Engines::All,
            (EngineChoice::Captured, Some(engine)) => Engines::Forced(engine),
            _ => Engines::First,
        },
        repeat: arguments.repeat,
        time: arguments.time,
        ..captured.request(&arguments.file, &data)
    }
}

/// Returns the directory with the libraries of a release, which is fetched if necessary.
fn libraries(name: &str, format: Format) -> Result<PathBuf, Box<dyn std::error::Error>> {
    if Path::new(name).is_dir() {
        return Ok(std::path::absolute(name)?);
    }
    let id = release_id(name).unwrap_or(name);
    let announce = |release: &Release| {
        if format == Format::Text {
            outln!(
                "{} {} ({} MB, downloaded unless it is in the cache)",
                release.package,
                release.version,
                release.megabytes
            );
        }
    };
    Ok(fetch_libraries(id, None, Network::Allowed, announce)?)
}

/// Returns the id of the pinned release with this version, such as `9.10` or `9.10.2`. Prefers releases in the cache,
/// then full releases, then the newest.
fn release_id(version: &str) -> Option<&'static str> {
    let wanted: Vec<u32> = version.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let matching = RELEASES.iter().filter(|release| {
        release.platform.is_none() && release.cudnn_version().is_some_and(|version| version.starts_with(&wanted))
    });
    let best = matching.max_by_key(|release| (release.is_cached(), !release.is_jit(), release.cudnn_version()));
    best.map(|release| release.id)
}

/// Returns the status, engine, workspace, time to build, time of an execution, and largest error.
fn cells(report: &Report) -> [String; 6] {
    let plan = working_plan(report);
    let time = plan.and_then(|plan| plan.time_ms);
    [
        status(report).printable(),
        plan.map_or(String::new(), |plan| plan.engine.index.to_string()),
        plan.map_or(String::new(), |plan| plan.workspace.to_string()),
        plan.map_or(String::new(), |plan| format!("{:.1} ms", plan.build_us as f64 / 1e3)),
        time.map_or(String::new(), |time| format!("{time:.4} ms")),
        largest_error(report).map_or(String::new(), error_text),
    ]
}

fn heading(report: &Report) -> String {
    let (major, minor, patch) = (report.cudnn / 10_000, report.cudnn % 10_000 / 100, report.cudnn % 100);
    format!("cuDNN {major}.{minor}.{patch}, {}", place(report))
}

/// Returns where graphs were planned or executed.
fn place(report: &Report) -> String {
    let device = report.device.printable();
    match &report.not_executed {
        Some(reason) => format!("planned for {device}; nothing was executed: {}", reason.printable()),
        None => format!("executed on {device}"),
    }
}

/// Returns the reason of a failure, and what is remarkable about each plan.
fn notes(report: &Report) -> String {
    let mut text = String::new();
    let mut note = |note: &str| {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}", note.printable());
    };
    if let Some(reason) = &report.reason {
        note(reason);
    }
    report.problems.iter().for_each(|problem| note(problem));
    for plan in &report.plans {
        let engine = plan.engine.index;
        if let Some(reason) = &plan.skipped {
            note(&format!("engine {engine} was skipped: {reason}"));
        } else if report.plans.len() > 1 {
            note(&format!("engine {engine}: workspace {}, {}", plan.workspace, plan.engine.notes.join(" ")));
        }
        for run in &plan.runs {
            let data = format!("{:?}", run.data).to_lowercase();
            let sample = if run.is_sampled { " in a sample" } else { "" };
            let rounding = rounding_notes(&plan.engine).join(" ");
            let rounding = if rounding.is_empty() { rounding } else { format!(" ({rounding})") };
            let error = run.error.map(|error| format!("error {}{sample}{rounding}", error_text(error)));
            let result = error.or_else(|| run.no_reference.clone().map(|reason| format!("no reference: {reason}")));
            note(&format!("engine {engine}, {data}: {} {}", run.status, result.unwrap_or_default()));
            if let Some(reason) = &run.reason {
                note(reason);
            }
            if let Some(worst) = &run.worst_element {
                note(worst);
            }
            if let Some(same) = run.same_as_captured {
                note(if same {
                    "the outputs are the captured ones"
                } else {
                    "the outputs differ from the captured ones"
                });
            }
            if !run.is_repeatable {
                note("repeated executions differ");
            }
            run.damage.iter().for_each(|damage| note(damage));
        }
    }
    text
}

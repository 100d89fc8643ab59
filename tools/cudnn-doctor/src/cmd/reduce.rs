//! `reduce`: makes a captured graph smaller while a condition holds.

use std::path::PathBuf;

use clap::ValueEnum;
use cudnn_capture_file::{Device, Execution, GraphRecord, Plan, Record};
use cudnn_replay::emit::Case;
use cudnn_replay::reduce::{self, reduce};
use cudnn_replay::replay::comparison::{largest_error, status, working_plan};
use cudnn_replay::replay::{DataSet, Engines, Report, Request};
use serde_json::json;

use crate::captures;
use crate::escape::Printable;
use crate::output::{CommandResult, Format, Outcome, outln, remark};
use crate::replay_child;
use crate::subprocess::Timeouts;

/// The options of `reduce`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The capture.
    file: PathBuf,
    /// The id of the graph, or its first digits. `cudnn-doctor capture show` lists them.
    #[arg(long, value_name = "ID")]
    graph: String,
    /// What the smaller graph must still show.
    #[arg(long, value_enum)]
    when: Condition,
    /// Write the smaller graph to this capture.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// The maximum number of graphs to try.
    #[arg(long, default_value_t = reduce::LIMIT)]
    limit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Condition {
    /// The results differ from the reference or between executions, or memory is damaged. Needs a GPU.
    Wrong,
    /// The process crashes or hangs.
    Crash,
    /// Another engine is at least twice as fast. Needs a GPU.
    Slow,
    /// No plan can be built, with the same status and reason.
    Status,
}

/// The largest error of a correct result.
const MAX_ERROR: f64 = 1.0;
/// How much faster another engine is.
const MIN_RATIO: f64 = 2.0;

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let name = arguments.file.printable();
    let capture = captures::read(&arguments.file)?;
    captures::check_output(&arguments.output, &arguments.file)?;
    let case = Case::select(&capture, &arguments.graph).map_err(|error| format!("{name}: {error}"))?;
    let mut request = Request {
        graph: case.captured.graph.clone(),
        device: case.captured.device.clone(),
        engines: match arguments.when {
            Condition::Slow => Engines::All,
            _ => {
                case.captured.plan.as_ref().and_then(|plan| plan.engine.clone()).map_or(Engines::First, Engines::Forced)
            }
        },
        execution: case.captured.execution.clone().map(host_values),
        data: vec![DataSet::Integers, DataSet::Normal],
        values: None,
        repeat: 2,
        time: arguments.when == Condition::Slow,
    };
    let original = replay_child::run(&request, None, timeouts)?;
    if !arguments.when.holds(&original, &original) {
        let found = original.reason.as_deref().unwrap_or("no reason");
        return Err(format!("the graph does not show this: {}, {}", status(&original), found.printable()).into());
    }
    let mut last = original.clone();
    let mut tries = 0;
    let mut failure = None;
    let graph = reduce(
        &case.captured.graph,
        &mut |candidate| {
            if failure.is_some() {
                return false;
            }
            tries += 1;
            request.graph = candidate.graph.clone();
            match replay_child::run(&request, None, timeouts) {
                Ok(report) => {
                    let holds = arguments.when.holds(&original, &report);
                    let result = if holds { "kept" } else { "dropped" };
                    remark(format_args!("{tries}: {}: {result} ({})", candidate.change, status(&report).printable()));
                    if holds {
                        last = report;
                    }
                    holds
                }
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        },
        arguments.limit,
    );
    if let Some(error) = failure {
        return Err(error.into());
    }
    let id = graph.id();
    let mut start = case.start.clone();
    start.cudnn = last.cudnn;
    let mut records = vec![Record::Start(start)];
    if let Some(description) = case.captured.device.clone() {
        records.push(Record::Device(Device { device: 0, description }));
    }
    let (before, after) = (case.captured.graph.nodes().len(), graph.nodes().len());
    let label = format!("{after} descriptors, reduced from the {before} of graph {}", case.captured.id);
    records.push(Record::Graph(GraphRecord { graph: id.clone(), label, nodes: graph.clone() }));
    let planned = working_plan(&last).or(last.plans.first());
    records.push(Record::Plan(Plan {
        plan: 0,
        graph: id.clone(),
        device: case.captured.device.as_ref().map(|_| 0),
        status: last.status.clone(),
        reason: last.reason.clone(),
        engine: planned.map(|plan| plan.engine.clone()),
        proposal: None,
        workspace: planned.filter(|_| last.status == "SUCCESS").and_then(|plan| i64::try_from(plan.workspace).ok()),
        build_us: planned.map_or(0, |plan| plan.build_us),
    }));
    if let Some(mut execution) = request.execution.filter(|execution| !execution.tensors.is_empty()) {
        execution.plan = 0;
        records.push(Record::Execution(execution));
    }
    let text: String = records.iter().map(Record::to_line).collect();
    std::fs::write(&arguments.output, text).map_err(|error| format!("{}: {error}", arguments.output.printable()))?;
    format.report(
        || json!({ "graph": id, "descriptors": after, "tries": tries }),
        || outln!("graph {id}: {after} descriptors instead of {before}, after {tries} tries"),
    );
    Ok(Outcome::Fine)
}

/// Returns the scalars of an execution. The layout of the other tensors changes with the graph.
fn host_values(mut execution: Execution) -> Execution {
    execution.tensors.retain(|tensor| tensor.value.is_some());
    execution.workspace = None;
    execution
}

impl Condition {
    /// Returns whether a report shows what the original shows.
    fn holds(self, original: &Report, report: &Report) -> bool {
        let runs = || report.plans.iter().flat_map(|plan| &plan.runs);
        match self {
            Condition::Wrong => {
                largest_error(report).is_some_and(|error| error > MAX_ERROR)
                    || runs().any(|run| !run.is_repeatable || !run.damage.is_empty())
            }
            Condition::Crash => matches!(report.status.as_str(), "CRASHED" | "HUNG"),
            Condition::Slow => {
                let first = working_plan(report).and_then(|plan| plan.time_ms);
                let fastest = report.plans.iter().filter_map(|plan| plan.time_ms).reduce(f64::min);
                first.zip(fastest).is_some_and(|(first, fastest)| first >= MIN_RATIO * fastest)
            }
            Condition::Status => {
                // Reasons may contain the number of a descriptor.
                let reason = |report: &Report| {
                    let text = report.reason.clone().unwrap_or_default();
                    text.chars().filter(|character| !character.is_ascii_digit()).collect::<String>()
                };
                let is_failure = status(report) != "SUCCESS" && !Condition::Crash.holds(original, report);
                is_failure && status(report) == status(original) && reason(report) == reason(original)
            }
        }
    }
}

//! `reduce`: makes a captured graph smaller while a condition holds.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, outln, remark};
use cudnn_cli::subprocess::{Spinner, Timeouts};
use cudnn_graph::{Graph, label};
use cudnn_os::interruption::Interruption;
use cudnn_replay::emit::Case;
use cudnn_replay::reduce::{self, Condition, Observed, SmallerGraph, adapted, reduce};
use cudnn_replay::replay::comparison::{status, working_plan};
use cudnn_replay::replay::{DataSet, Engines, ReplayReport, ReportStatus, Request};
use cudnn_store::captures::{DeviceRecord, GraphRecord, PlanRecord, Record, START, Status};
use serde_json::json;

use crate::captures;
use crate::graph_arguments::{GraphArguments, MemoryOption};
use crate::output_file::{Output, OutputKind, Replace};
use crate::progress::end_if_interrupted;
use crate::replay_worker::Replayer;
use crate::worker::Stop;

/// Captures, which `reduce` and the layer `capture` write.
const CAPTURE: OutputKind = OutputKind { name: "a capture", is_start: |start| start.starts_with(START.as_bytes()) };

const ONLY_WITH_VALUES: &str = "the graph shows this only with the captured values, and a smaller capture contains no values; \
     use `emit` or the whole capture";

/// The options of `reduce`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    graph: GraphArguments,
    /// What the smaller graph must still show.
    #[arg(long, value_enum)]
    when: When,
    /// Write the smallest graph so far to this capture.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    replace: Replace,
    #[command(flatten)]
    memory: MemoryOption,
    /// The maximum number of graphs to try.
    #[arg(long, default_value_t = reduce::LIMIT)]
    limit: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum When {
    /// The results differ from the reference or between executions, or memory is damaged. Needs a GPU.
    Wrong,
    /// The process crashes or hangs.
    Crash,
    /// Another engine is at least twice as fast. Needs a GPU.
    Slow,
    /// No engine works, with the same status and reason.
    Status,
}

pub(crate) fn run(arguments: &Arguments, timeouts: &Timeouts, format: Format) -> CommandResult {
    let Arguments { output, replace, .. } = arguments;
    let file = captures::read(&arguments.graph.file)?;
    let inputs = arguments.graph.inputs();
    let output = Output { file: output, kind: &CAPTURE, inputs: &inputs, force: replace.force };
    output.check()?;
    let mut case = arguments.graph.select(&file)?;
    if case.failure.is_some() {
        let name = arguments.graph.file.printable();
        return Err(format!("{name}: only graphs can be made smaller, and this is a failed call").into());
    }
    let condition = match arguments.when {
        When::Wrong => Condition::Wrong,
        When::Crash => Condition::Crash,
        When::Slow => Condition::Slow,
        When::Status => Condition::Status,
    };
    if matches!(condition, Condition::Slow | Condition::Status) {
        // The problems concern the first engine that works, and not the captured one.
        case.captured.plan = None;
    }
    let interruption = Interruption::catch();
    let graph = &case.captured.graph;
    // `None` until the graph has shown the problem.
    let (mut smallest, mut tries) = (None, 0);
    let mut replayer = Replayer::new(None, timeouts);
    let mut observe = |graph: &Graph, data: &[DataSet]| {
        let max_bytes = arguments.memory.bytes();
        let request = case.captured.request(&arguments.graph.file, data);
        // The smaller capture contains no values of tensors.
        let values = request.values.filter(|_| data.contains(&DataSet::Captured));
        let request = Request { max_bytes, values, data: data.to_vec(), ..request };
        observe(&case, graph, condition, request, &mut replayer)
    };
    let write = |graph: &Graph, report: &ReplayReport| {
        let text: String = records(&case, graph, report).iter().map(Record::to_line).collect();
        output.write(|file| file.write_all(text.as_bytes())).map_err(Stop::Failed)
    };
    let mut search = || {
        let original = observe(graph, &[DataSet::Integers, DataSet::Normal])?;
        if !condition.holds(&original, &original) {
            let has_values = !case.captured.values.is_empty();
            if has_values && observe(graph, &[DataSet::Captured]).map(|seen| condition.holds(&seen, &seen))? {
                return Err(Stop::Failed(ONLY_WITH_VALUES.to_owned()));
            }
            let report = &original.report;
            let found: Vec<&str> = report.reason.iter().chain(&report.problems).map(String::as_str).collect();
            let found = if found.is_empty() { "no reason".to_owned() } else { found.join("; ") };
            let found = found.printable();
            return Err(Stop::Failed(format!("the graph does not show this: {}, {found}", status(report))));
        }
        write(graph, &original.report)?;
        smallest = Some(graph.clone());
        let data = condition.data(&original);
        let mut is_kept = |candidate: &SmallerGraph| {
            let observed = observe(&candidate.graph, &data)?;
            tries += 1;
            let holds = condition.holds(&original, &observed);
            let (result, found) = (if holds { "kept" } else { "dropped" }, found(&observed.report));
            remark(format_args!("{tries}: {}: {result} ({})", candidate.change, found.printable()));
            if holds {
                write(&candidate.graph, &observed.report)?;
                smallest = Some(candidate.graph.clone());
            }
            Ok(holds)
        };
        reduce(graph, &mut is_kept, arguments.limit)
    };
    if let Err(Stop::Failed(reason)) = search() {
        return Err(reason.into());
    }
    let before = graph.nodes().len();
    let (id, after) = smallest.map(|smallest| (smallest.id(), smallest.nodes().len())).unzip();
    format.report(
        || json!({ "graph": id, "descriptors": after, "tries": tries }),
        || match id.as_ref().zip(after) {
            Some((id, after)) => outln!("graph {id}: {after} descriptors instead of {before}, after {tries} tries"),
            None => outln!("graph {}: not tried, and nothing was written", graph.id()),
        },
    );
    end_if_interrupted(interruption.signal(), "a smaller graph may exist");
    Ok(captures::outcome(&file.problems))
}

/// Returns the status, and the element with the largest error.
fn found(report: &ReplayReport) -> String {
    let runs = report.plans.iter().flat_map(|plan| &plan.runs).filter(|run| run.worst_element.is_some());
    let worst = runs.max_by(|a, b| a.error.unwrap_or(0.0).total_cmp(&b.error.unwrap_or(0.0)));
    let worst = worst.and_then(|run| run.worst_element.as_deref());
    worst.map_or(status(report).to_string(), |worst| format!("{}, {worst}", status(report)))
}

fn observe(
    case: &Case,
    graph: &Graph,
    condition: Condition,
    request: Request,
    replayer: &mut Replayer<'_>,
) -> Result<Observed, Stop> {
    let (captured, is_slow) = (&case.captured, condition == Condition::Slow);
    let engine = captured.plan.as_ref().and_then(|plan| plan.engine.clone());
    let mut request = Request {
        graph: graph.clone(),
        engines: engine.map_or(Engines::First, Engines::Forced),
        execution: captured.execution.as_ref().map(|execution| adapted(execution, &captured.graph, graph)),
        time: is_slow,
        ..request
    };
    let mut spinner = Spinner::new(true);
    let mut replay =
        |request: &Request| replayer.replay(std::slice::from_ref(request), &mut || spinner.turn(|| "computing"));
    let mut observed = Observed { report: replay(&request)?, alternatives: Vec::new() };
    if is_slow {
        request.engines = Engines::All;
        let all = replay(&request)?;
        observed.alternatives = all.plans;
        observed.report.problems.extend(all.problems);
    }
    Ok(observed)
}

fn records(case: &Case, graph: &Graph, report: &ReplayReport) -> Vec<Record> {
    let (captured, id) = (&case.captured, graph.id());
    let mut start = case.start.clone();
    if report.cudnn > 0 {
        start.cudnn = report.cudnn;
    }
    let mut records = vec![Record::Start(start)];
    if let Some(description) = captured.device.clone() {
        records.push(Record::Device(DeviceRecord { device: 0, description }));
    }
    let (before, after) = (captured.graph.nodes().len(), graph.nodes().len());
    let ended = if report.status.has_ended_process() { format!(" ({})", report.status) } else { String::new() };
    let label = label::describe(graph);
    let label = format!("{label}: {after} descriptors, reduced from the {before} of graph {}{ended}", captured.id);
    records.push(Record::Graph(GraphRecord { graph: id.clone(), label, nodes: graph.clone() }));
    let planned = working_plan(report).or(report.plans.first());
    let plan = match report.status {
        ReportStatus::Returned(status) => Some(PlanRecord {
            status,
            reason: report.reason.clone(),
            engine: planned.map(|plan| plan.engine.clone()),
            workspace: planned.filter(|_| status == Status::SUCCESS).and_then(|it| i64::try_from(it.workspace).ok()),
            build_us: planned.map_or(0, |plan| plan.build_us),
            ..PlanRecord::default()
        }),
        // A process that crashes reports no plan. For the smaller graph, only the requested engine is known.
        _ => captured.plan.as_ref().map(|plan| PlanRecord {
            status: plan.status,
            engine: plan.engine.clone(),
            ..PlanRecord::default()
        }),
    };
    let Some(plan) = plan else { return records };
    let device = captured.device.as_ref().map(|_| 0);
    records.push(Record::Plan(PlanRecord { plan: 0, graph: id, device, proposal: None, ..plan }));
    if let Some(execution) = &captured.execution {
        let mut execution = adapted(execution, &captured.graph, graph);
        execution.plan = 0;
        records.push(Record::Execution(execution));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tensor_with_the_largest_error_is_named() {
        let report = |runs: &str| -> ReplayReport {
            let json = format!(
                r#"{{"cudnn":91900,"device":"","status":"SUCCESS","plans":[{{"engine":{{"index":1}},"workspace":0,"build_us":1,"runs":[{runs}]}}]}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let run = |error: f64, uid: i64| {
            format!(
                r#"{{"data":"normal","status":"SUCCESS","error":{error},"worst_element":"element 0 of tensor {uid} is 1","bits":"","is_repeatable":true}}"#
            )
        };
        assert_eq!(found(&report("")), "SUCCESS");
        let both = [run(0.5, 3), run(90.0, 4)].join(",");
        assert_eq!(found(&report(&both)), "SUCCESS, element 0 of tensor 4 is 1");
    }
}

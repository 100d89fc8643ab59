//! `capture`: shows what is in a capture, without loading cuDNN.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use cudnn_capture_file::{Capture, Plan, Record};
use serde_json::{Value, json};

use crate::escape::Printable;
use crate::output::{CommandResult, Format, Outcome, count, outln, remark};
use crate::table::table;

/// The options of `capture`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the graphs with their plans, and the calls that have failed.
    Show {
        /// The file that `run --capture` has written.
        file: PathBuf,
    },
}

/// A plan with the number of its executions.
struct Planned<'a> {
    plan: &'a Plan,
    executions: u64,
}

/// What a capture contains.
#[derive(Default)]
struct Summary<'a> {
    /// Graphs with their labels, in order.
    graphs: Vec<(&'a str, &'a str)>,
    plans: Vec<Planned<'a>>,
    /// Graphs that could not be stored: label and reason.
    incomplete: Vec<(&'a str, &'a str)>,
    /// The call, the status and the reason.
    failures: Vec<(&'a str, &'a str, &'a str)>,
    calls: usize,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let Action::Show { file } = &arguments.action;
    let capture = Capture::read(file).map_err(|error| format!("cannot read {}: {error}", file.printable()))?;
    let summary = Summary::new(&capture.records);
    format.report(|| summary.value(&capture), || summary.text());
    if format == Format::Text {
        capture.problems.iter().for_each(|problem| remark(format_args!("warning: {problem}")));
    }
    Ok(if capture.problems.is_empty() { Outcome::Fine } else { Outcome::Warnings })
}

impl<'a> Summary<'a> {
    fn new(records: &'a [Record]) -> Self {
        let mut summary = Summary::default();
        // The places of plans by the ordinal in the capture of the current process.
        let mut places = HashMap::new();
        for record in records {
            let executions = match record {
                Record::Start(_) => {
                    places.clear();
                    continue;
                }
                Record::Graph(graph) => {
                    // Two threads may write the same graph.
                    if !summary.graphs.iter().any(|(id, _)| *id == graph.graph) {
                        summary.graphs.push((&graph.graph, &graph.label));
                    }
                    continue;
                }
                Record::Plan(plan) => {
                    places.entry(plan.plan).or_insert_with(|| {
                        summary.plans.push(Planned { plan, executions: 0 });
                        summary.plans.len() - 1
                    });
                    continue;
                }
                Record::Execution(execution) if execution.status == "SUCCESS" => (execution.plan, 1),
                Record::Count(count) => (count.plan, count.executions),
                Record::Incomplete(incomplete) => {
                    summary.incomplete.push((&incomplete.label, &incomplete.reason));
                    continue;
                }
                Record::Failure(failure) => {
                    let reason = failure.reason.as_deref().unwrap_or_default();
                    summary.failures.push((&failure.call, &failure.status, reason));
                    continue;
                }
                Record::Call(_) => {
                    summary.calls += 1;
                    continue;
                }
                _ => continue,
            };
            let (plan, executions) = executions;
            if let Some(planned) = places.get(&plan).and_then(|place| summary.plans.get_mut(*place)) {
                planned.executions = planned.executions.max(executions);
            }
        }
        summary
    }

    fn plans_of<'b>(&'b self, graph: &'b str) -> impl Iterator<Item = &'b Planned<'a>> {
        self.plans.iter().filter(move |planned| planned.plan.graph == graph)
    }

    fn text(&self) {
        let mut table = table(["graph", "engine", "status", "workspace", "executions", "operations"]);
        for (id, label) in &self.graphs {
            let mut is_planned = false;
            for Planned { plan, executions } in self.plans_of(id) {
                is_planned = true;
                let engine = plan.engine.as_ref().map(|engine| engine.index.to_string()).unwrap_or_default();
                let workspace = plan.workspace.map(|size| size.to_string()).unwrap_or_default();
                let status = plan.status.printable();
                table.add_row([id.printable(), engine, status, workspace, executions.to_string(), label.printable()]);
            }
            if !is_planned {
                table.add_row([
                    id.printable(),
                    String::new(),
                    "no plan".into(),
                    String::new(),
                    "0".into(),
                    label.printable(),
                ]);
            }
        }
        outln!("{table}");
        for (label, reason) in &self.incomplete {
            outln!("not stored: {}: {}", label.printable(), reason.printable());
        }
        for (call, status, reason) in &self.failures {
            outln!("failed: {}: {} {}", call.printable(), status.printable(), reason.printable());
        }
        if self.calls > 0 {
            outln!("{} outside of the backend API", count(self.calls, "call"));
        }
    }

    fn value(&self, capture: &Capture) -> Value {
        let plan = |planned: &Planned<'_>| {
            let Planned { plan, executions } = planned;
            let engine = plan.engine.as_ref().map(|engine| engine.index);
            json!({
                "engine": engine, "status": plan.status, "reason": plan.reason, "workspace": plan.workspace,
                "build_us": plan.build_us, "executions": executions,
            })
        };
        let graph = |(id, label): &(&str, &str)| {
            let plans: Vec<Value> = self.plans_of(id).map(plan).collect();
            json!({"graph": id, "label": label, "plans": plans})
        };
        let failure =
            |(call, status, reason): &(&str, &str, &str)| json!({"call": call, "status": status, "reason": reason});
        json!({
            "graphs": self.graphs.iter().map(graph).collect::<Vec<_>>(),
            "incomplete": self.incomplete.iter().map(|(label, reason)| json!({"label": label, "reason": reason}))
                .collect::<Vec<_>>(),
            "failures": self.failures.iter().map(failure).collect::<Vec<_>>(),
            "calls": self.calls,
            "problems": capture.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }
}

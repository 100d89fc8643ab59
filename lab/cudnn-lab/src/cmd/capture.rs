//! `capture`: shows a capture, without loading cuDNN.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{CommandResult, Format, outln};
use cudnn_store::captures::{Capture, CapturedPlan, FailureRecord, Record};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::captures::{self, listed_calls};
use crate::stream_table::StreamTable;

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

#[derive(Default)]
struct CaptureSummary<'a> {
    graphs: Vec<(&'a str, &'a str)>,
    plans: HashMap<&'a str, Vec<CapturedPlan<'a>>>,
    incomplete: Vec<(&'a str, &'a str)>,
    failures: Vec<&'a FailureRecord>,
    calls: BTreeMap<&'a str, u64>,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    match &arguments.action {
        Action::Show { file } => {
            let read = captures::read(file)?;
            let summary = CaptureSummary::new(&read.capture);
            format.report(|| summary.keys(&read.problems), || summary.text());
            Ok(captures::outcome(&read.problems))
        }
    }
}

/// Returns the start of a label.
fn shown(label: &str) -> String {
    const MAX_LABEL: usize = 400;
    match label.char_indices().nth(MAX_LABEL) {
        Some((end, _)) => format!("{}…", label.get(..end).unwrap_or_default().printable()),
        None => label.printable(),
    }
}

/// Returns the id for other commands, unless the failure depends on more than descriptors.
fn failure_id(failure: &FailureRecord) -> Option<String> {
    Some(failure.graph().ok()?.id())
}

/// Returns the kind of the refused descriptor, such as `CUDNN_BACKEND_TENSOR_DESCRIPTOR`.
fn refused_kind(failure: &FailureRecord) -> Option<String> {
    let kind = failure.descriptors.last()?.kind;
    Some(kind.name().map_or_else(|| format!("#{}", kind.0), |name| name.to_string_lossy().into_owned()))
}

impl<'a> CaptureSummary<'a> {
    fn new(capture: &'a Capture) -> Self {
        let mut summary = CaptureSummary { calls: capture.calls(), ..CaptureSummary::default() };
        let mut known = HashSet::new();
        for plan in capture.processes().flat_map(|process| process.plans) {
            summary.plans.entry(&plan.record.graph).or_default().push(plan);
        }
        for record in &capture.records {
            match record {
                // Two threads may write the same graph.
                Record::Graph(graph) if known.insert(&graph.graph) => {
                    summary.graphs.push((&graph.graph, &graph.label));
                }
                Record::Incomplete(incomplete) => summary.incomplete.push((&incomplete.label, &incomplete.reason)),
                Record::Failure(failure) => summary.failures.push(failure),
                _ => {}
            }
        }
        summary
    }

    fn plans_of(&self, graph: &str) -> &[CapturedPlan<'a>] {
        self.plans.get(graph).map(Vec::as_slice).unwrap_or_default()
    }

    fn text(&self) {
        let columns = [("engine", 6), ("status", 13), ("workspace", 9), ("executions", 10), ("operations", 0)];
        let mut table = StreamTable::new(self.graphs.iter().map(|(id, _)| *id), columns);
        table.head(None);
        for (id, label) in &self.graphs {
            let (plans, id, label) = (self.plans_of(id), id.printable(), shown(label));
            for CapturedPlan { record: plan, count, .. } in plans {
                let engine = plan.engine.as_ref().map(|engine| engine.index.to_string()).unwrap_or_default();
                let workspace = plan.workspace.map(|size| size.to_string()).unwrap_or_default();
                table.print([&id, &engine, &plan.status.to_string(), &workspace, &count.to_string(), &label]);
            }
            if plans.is_empty() {
                table.print([&*id, "", "no plan", "", "0", &label]);
            }
        }
        for (label, reason) in &self.incomplete {
            outln!("not stored: {}: {}", shown(label), reason.printable());
        }
        for failure in &self.failures {
            let reason = failure.reason.as_deref().unwrap_or_default();
            let id = failure_id(failure).map_or(String::new(), |id| format!(" {id}:"));
            outln!("failed:{id} {}: {} {}", failure.call.printable(), failure.status, reason.printable());
            if let Some(kind) = refused_kind(failure) {
                let attribute =
                    failure.attribute.as_ref().map(|(name, ..)| format!(", attribute {}", name.printable()));
                outln!("  descriptor {}{}", kind.printable(), attribute.unwrap_or_default());
            }
        }
        if !self.calls.is_empty() {
            outln!("outside of the backend API: {}", listed_calls(&self.calls));
        }
    }

    /// Returns the keys of the document, whose records are converted while it is printed.
    fn keys(&self, problems: &[String]) -> impl Serialize {
        let plan = |CapturedPlan { record: plan, count, .. }: &CapturedPlan<'_>| {
            let engine = plan.engine.as_ref().map(|engine| engine.index);
            json!({
                "engine": engine, "status": plan.status, "reason": plan.reason, "workspace": plan.workspace,
                "build_us": plan.build_us, "executions": count,
            })
        };
        let graph = move |(id, label): &(&str, &str)| {
            let plans: Vec<Value> = self.plans_of(id).iter().map(plan).collect();
            json!({"graph": id, "label": label, "plans": plans})
        };
        let failure = |failure: &&FailureRecord| {
            let reason = failure.reason.as_deref().unwrap_or_default();
            json!({
                "graph": failure_id(failure), "call": failure.call, "status": failure.status, "reason": reason,
                "descriptor": refused_kind(failure), "attribute": failure.attribute.as_ref().map(|(name, ..)| name),
            })
        };
        #[derive(Serialize)]
        struct Keys<'a, G, I, F> {
            graphs: G,
            incomplete: I,
            failures: F,
            calls: u64,
            problems: &'a [String],
        }
        Keys {
            graphs: Each(self.graphs.iter().map(graph)),
            incomplete: Each(self.incomplete.iter().map(|(label, reason)| json!({"label": label, "reason": reason}))),
            failures: Each(self.failures.iter().map(failure)),
            calls: self.calls.values().fold(0, |sum, calls| sum.saturating_add(*calls)),
            problems,
        }
    }
}

/// A list whose elements are created while it is serialized.
struct Each<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Each<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

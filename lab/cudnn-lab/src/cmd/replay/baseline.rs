//! Reads the reports of an earlier replay as the first side of a comparison.

use std::fmt::Display;
use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::{SCHEMA, remark};
use cudnn_cli::programs::lab;
use cudnn_probe::read_bounded;
use cudnn_replay::replay::ReplayReport;
use cudnn_replay::replay::capture::Captured;
use serde_json::Value;

use super::arguments::TIMING;
use super::text;

/// The maximum size in bytes. A report about all engines of a graph has some 10 KB.
const MAX_BASELINE: u64 = 256 << 20;

/// Returns the reports about these graphs, in their order. Returns an error if the file is not the output of a replay
/// with these options, or has no report about a graph.
pub(super) fn read(file: &Path, options: &Value, graphs: &[Captured]) -> Result<Vec<ReplayReport>, String> {
    let refused = |reason: &dyn Display| format!("{}: {reason}", file.printable());
    let not_a_baseline =
        |reason: &str| refused(&format_args!("{reason}; `{} replay CAPTURE --json > FILE` writes a baseline", lab()));
    let bytes = read_bounded(file, MAX_BASELINE).map_err(|error| refused(&error))?;
    let mut document: Value =
        serde_json::from_slice(&bytes).map_err(|error| not_a_baseline(&format!("not a JSON document: {error}")))?;
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(not_a_baseline(&format!("contains the error of a replay: {}", error.printable())));
    }
    if document.get("schema") != Some(&SCHEMA.into()) {
        return Err(not_a_baseline("not written by this version of the lab"));
    }
    let written_with = document.get("options").ok_or_else(|| not_a_baseline("not a document of `replay`"))?.clone();
    if let Some(name) = different(&written_with, options) {
        let [then, now] = [&written_with, options].map(|options| options.get(name).unwrap_or(&Value::Null));
        let then = then.to_string();
        return Err(refused(&format_args!("was written with {name} {}, but now it is {now}", then.printable())));
    }
    let mut reports = match document.get_mut("graphs").map(Value::take) {
        Some(Value::Array(reports)) => reports,
        _ => return Err(not_a_baseline("not a document of `replay`")),
    };
    let mut take = |graph: &Captured| {
        let is_it = |report: &Value| report.get("graph").and_then(Value::as_str) == Some(&graph.id);
        // Two failed calls may have the same id.
        let Some(index) = reports.iter().position(is_it) else {
            return Err(not_a_baseline(&format!("has no graph {}", graph.id.printable())));
        };
        let report = reports.remove(index).get_mut("report").map(Value::take).unwrap_or_default();
        let damaged = |error: &dyn Display| {
            not_a_baseline(&format!("the report about {} is damaged: {error}", graph.id.printable()))
        };
        serde_json::from_value(report).map_err(|error| damaged(&error))
    };
    let mut found = graphs.iter().map(&mut take).collect::<Result<Vec<ReplayReport>, String>>()?;
    let is_twice =
        |graph: &&Captured| reports.iter().any(|report| report.get("graph").and_then(Value::as_str) == Some(&graph.id));
    match graphs.iter().find(is_twice) {
        Some(graph) => Err(not_a_baseline(&format!("has the graph {} more than once", graph.id.printable()))),
        None => {
            if written_with.get(TIMING) != options.get(TIMING) && forget_times(&mut found) {
                remark(format_args!("{}: its times were measured in another way, and are ignored", file.printable()));
            }
            Ok(found)
        }
    }
}

/// Removes the execution times. Returns whether there were any.
fn forget_times(reports: &mut [ReplayReport]) -> bool {
    let plans = reports.iter_mut().flat_map(|report| &mut report.plans);
    plans.filter_map(|plan| plan.time_ms.take()).count() > 0
}

/// Returns the name of an option with a different value.
fn different<'a>(before: &Value, now: &'a Value) -> Option<&'a str> {
    let names = now.as_object()?.iter();
    names
        .filter(|(name, value)| *name != TIMING && before.get(name) != Some(value))
        .map(|(name, _)| name.as_str())
        .next()
}

/// Returns an error if the graph was executed on only one side, or if the GPUs differ.
pub(super) fn check_place(graph: &str, before: &ReplayReport, after: &ReplayReport) -> Result<(), String> {
    let both = [before, after];
    let has_crashed = both.iter().any(|report| report.cudnn == 0);
    // Without a plan, the graph is not executed on any machine.
    let lacks_plan = both.iter().any(|report| report.plans.is_empty());
    let is_as_executed = before.not_executed.is_some() == after.not_executed.is_some();
    if has_crashed || before.device == after.device && (lacks_plan || is_as_executed) {
        return Ok(());
    }
    let [before, after] = both.map(|report| text::place(report).printable());
    Err(format!(
        "graph {} cannot be compared with the baseline: it was {before}. Now it was {after}",
        graph.printable()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use cudnn_graph::Graph;
    use cudnn_replay::replay::{PlanReport, ReportStatus};
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_another_method_are_ignored() {
        let captured = Captured {
            id: "g".to_owned(),
            capture: 0,
            label: String::new(),
            graph: Graph::default(),
            device: None,
            plan: None,
            execution: None,
            values: Vec::new(),
            left_out: None,
            plan_only: false,
        };
        let now = json!({ "time": true, TIMING: "median" });
        let plan = PlanReport { time_ms: Some(1.0), ..PlanReport::default() };
        let report = ReplayReport { plans: vec![plan], ..ReplayReport::default() };
        let graphs = json!([{ "graph": "g", "report": report }]);
        let file = tempfile::NamedTempFile::new().unwrap();
        for (options, time) in [(now.clone(), Some(1.0)), (json!({ "time": true }), None)] {
            let document = json!({ "schema": SCHEMA, "options": options, "graphs": graphs });
            std::fs::write(file.path(), document.to_string()).unwrap();
            let reports = read(file.path(), &now, std::slice::from_ref(&captured)).unwrap();
            assert_eq!(reports[0].plans[0].time_ms, time, "{options}");
        }
    }

    #[test]
    fn only_reports_about_the_same_place_are_compared() {
        let report = |device: &str, reason: Option<&str>| ReplayReport {
            cudnn: 91_900,
            device: device.to_owned(),
            not_executed: reason.map(str::to_owned),
            plans: vec![PlanReport::default()],
            ..ReplayReport::default()
        };
        let (executed, planned) = (report("A", None), report("A", Some("no GPU")));
        check_place("g", &planned, &report("A", Some("no driver"))).unwrap();
        // A graph that only one release supports, and that needs too much memory.
        check_place("g", &ReplayReport { plans: Vec::new(), ..executed.clone() }, &planned).unwrap();
        check_place("g", &executed, &ReplayReport { status: ReportStatus::Crashed, ..ReplayReport::default() })
            .unwrap();
        let error = check_place("g", &executed, &planned).unwrap_err();
        assert!(
            error.ends_with("was executed on A. Now it was planned for A; nothing was executed: no GPU"),
            "{error}"
        );
        let error = check_place("g", &planned, &report("B", Some("no GPU"))).unwrap_err();
        assert!(error.contains("planned for A") && error.contains("planned for B"), "{error}");
    }
}

//! Turns captures into requests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cudnn_graph::Graph;
use cudnn_store::captures::{
    Capture, CapturedPlan, DataRecord, ExecutionRecord, FailureRecord, PlanRecord, Process, Record, Status, values_dir,
};

use super::request::{CapturedValues, DataSet, Request};

/// Maximum number of omitted executions to list.
const MAX_NAMES: usize = 8;

/// A graph of a capture with the records to replay, or the descriptors of a failed call.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The id.
    pub id: String,
    /// The index of the capture with the plan, or with the graph if there is no plan.
    pub capture: usize,
    /// The graph in one line.
    pub label: String,
    /// The graph. For a failed call, the last descriptor is the refused one.
    pub graph: Graph,
    /// cuDNN's description of the plan's device, or otherwise of the heuristics' or the process's last device.
    pub device: Option<String>,
    /// The first plan with a failed execution, or otherwise with values, an execution, success or an engine.
    pub plan: Option<PlanRecord>,
    /// The first failed execution of this plan, or otherwise the first one.
    pub execution: Option<ExecutionRecord>,
    /// The files with the values of tensors before and after the plan's latest stored execution.
    pub values: Vec<DataRecord>,
    /// A description of other executions with stored values.
    pub left_out: Option<String>,
    /// Whether the graph is only planned, because [`plan_for`](Self::plan_for) has selected another device.
    pub plan_only: bool,
}

struct FoundGraph<'a> {
    captured: Captured,
    proposed_for: Option<&'a str>,
    last_device: Option<&'a str>,
    plans: Vec<FoundPlan<'a>>,
}

struct FoundPlan<'a> {
    capture: usize,
    device: Option<&'a str>,
    plan: CapturedPlan<'a>,
}

/// Returns the distinct graphs in the order of their first records, followed by failed calls with descriptors.
pub fn graphs<'a>(captures: impl IntoIterator<Item = &'a Capture>) -> Vec<Captured> {
    let processes = captures.into_iter().enumerate();
    let processes: Vec<(usize, Process<'a>)> =
        processes.flat_map(|(at, capture)| capture.processes().map(move |process| (at, process))).collect();
    let mut found = Vec::<FoundGraph<'_>>::new();
    let mut places = BTreeMap::<&str, usize>::new();
    for (capture, process) in &processes {
        for record in process.records {
            match record {
                Record::Graph(record) if !places.contains_key(record.graph.as_str()) => {
                    places.insert(&record.graph, found.len());
                    let (id, label, graph) = (record.graph.clone(), record.label.clone(), record.nodes.clone());
                    let captured = Captured::new(id, *capture, label, graph);
                    let last_device = process.last_device();
                    found.push(FoundGraph { captured, proposed_for: None, last_device, plans: Vec::new() });
                }
                Record::Proposals(proposals) => {
                    let graph = places.get(proposals.graph.as_str()).and_then(|place| found.get_mut(*place));
                    if let Some(graph) = graph {
                        graph.proposed_for = graph.proposed_for.or(process.device(proposals.device));
                    }
                }
                _ => {}
            }
        }
        for plan in &process.plans {
            let graph = places.get(plan.record.graph.as_str()).and_then(|place| found.get_mut(*place));
            let device = process.device(plan.record.device);
            let plan = FoundPlan { capture: *capture, device, plan: plan.clone() };
            if let Some(graph) = graph {
                graph.plans.push(plan);
            }
        }
    }
    let graphs = found.into_iter().map(|found| {
        let device = found.proposed_for.or(found.last_device);
        found.captured.with_plan(&found.plans, device)
    });
    graphs.chain(failed_calls(&processes)).collect()
}

impl<'a> FoundPlan<'a> {
    /// Returns the first failed execution, or otherwise the first one.
    fn execution(&self) -> Option<&'a ExecutionRecord> {
        let executions = &self.plan.executions;
        executions.iter().find(|execution| execution.status != Status::SUCCESS).or(executions.first()).copied()
    }

    /// Returns a larger value for a better plan.
    fn rank(&self) -> impl Ord + use<> {
        // Prefer failures. A plan without an engine shows that the heuristics or an engine were refused.
        let (plan, execution) = (self.plan.record, self.execution());
        let has_failed = execution.is_some_and(|execution| execution.status != Status::SUCCESS);
        let is_stored = (!self.plan.values.is_empty(), execution.is_some());
        (has_failed, is_stored, plan.status == Status::SUCCESS, plan.engine.is_some())
    }
}

fn failed_calls(processes: &[(usize, Process<'_>)]) -> Vec<Captured> {
    let mut calls = Vec::<Captured>::new();
    let mut ids = BTreeSet::new();
    for (capture, process) in processes {
        let mut last_device = None;
        for record in process.records {
            if let Record::Device(device) = record {
                last_device = Some(&device.description).filter(|text| !text.is_empty());
            }
            let Record::Failure(failure) = record else { continue };
            let Ok(graph) = failure.graph() else { continue };
            let id = graph.id();
            if ids.insert(id.clone()) {
                let device = last_device.cloned();
                calls.push(Captured { device, ..Captured::new(id, *capture, label(failure), graph) });
            }
        }
    }
    calls
}

/// Returns a line such as `cudnnBackendSetAttribute TENSOR_DIMENSIONS: BAD_PARAM`.
fn label(failure: &FailureRecord) -> String {
    let attribute = failure.attribute.as_ref().map(|(name, ..)| format!(" {name}")).unwrap_or_default();
    format!("{}{attribute}: {}", failure.call, failure.status)
}

impl Captured {
    fn new(id: String, capture: usize, label: String, graph: Graph) -> Self {
        let (device, plan, execution, values, left_out) = (None, None, None, Vec::new(), None);
        Captured { id, capture, label, graph, device, plan, execution, values, left_out, plan_only: false }
    }

    /// Selects the device to plan for by a description, without executing graphs.
    pub fn plan_for(&mut self, description: &str) {
        (self.device, self.plan_only) = (Some(description.to_owned()), true);
    }

    /// Selects a plan and an execution. Without a plan, uses `device`.
    fn with_plan(self, plans: &[FoundPlan<'_>], device: Option<&str>) -> Self {
        // Select the first of equal plans.
        let Some(best) = plans.iter().rev().max_by_key(|plan| plan.rank()) else {
            return Captured { device: device.map(str::to_owned), ..self };
        };
        let latest = best.plan.values.last_key_value();
        let number = latest.map(|(number, _)| *number);
        let is_used = |plan: &FoundPlan<'_>, execution| std::ptr::eq(plan, best) && Some(execution) == number;
        let stored = plans.iter().flat_map(|plan| plan.plan.values.keys().map(move |execution| (plan, *execution)));
        let others: Vec<String> = stored
            .filter(|(plan, execution)| !is_used(plan, *execution))
            .map(|(plan, execution)| {
                let other = if plan.capture == best.capture { "" } else { " of another capture" };
                format!("execution {execution} of plan {}{other}", plan.plan.record.plan)
            })
            .collect();
        let left_out = number.filter(|_| !others.is_empty()).map(|number| {
            let plan = best.plan.record.plan;
            let names = others.get(..MAX_NAMES).unwrap_or(&others).join(", ");
            let more = if others.len() > MAX_NAMES { ", ..." } else { "" };
            format!(
                "the values of execution {number} of plan {plan} are replayed, and these are left out: {names}{more}"
            )
        });
        Captured {
            capture: best.capture,
            device: best.device.or(device).map(str::to_owned),
            plan: Some(best.plan.record.clone()),
            execution: best.execution().cloned(),
            values: latest.map(|(_, records)| records.iter().map(|data| (*data).clone()).collect()).unwrap_or_default(),
            left_out,
            ..self
        }
    }

    /// Returns a request for this graph, with the first engine that works and two executions. `file` is the capture
    /// with the index [`capture`](Self::capture). Its stored values are used in addition to the selected data sets.
    pub fn request(&self, file: &Path, data: &[DataSet]) -> Request {
        let mut data = data.to_vec();
        if !self.values.is_empty() && !data.contains(&DataSet::Captured) {
            data.push(DataSet::Captured);
        }
        let values = CapturedValues { dir: values_dir(file), records: self.values.clone() };
        Request {
            device: self.device.clone(),
            plan_only: self.plan_only,
            execution: self.execution.clone(),
            data,
            values: Some(values).filter(|values| !values.records.is_empty()),
            repeat: 2,
            ..Request::new(self.graph.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;

    /// Returns a record of a graph, which is complete if its id is `a`.
    fn graph(id: &str) -> String {
        let kind = if id == "a" { "OPERATIONGRAPH" } else { "TENSOR" };
        format!(r#"{{"record":"graph","graph":"{id}","label":"","nodes":[{{"kind":"{kind}"}}]}}"#)
    }

    #[test]
    fn values_belong_to_the_execution_that_is_replayed() {
        let plan = |plan: usize, graph: &str| {
            format!(r#"{{"record":"plan","plan":{plan},"graph":"{graph}","status":"SUCCESS","build_us":1}}"#)
        };
        let execution = |plan: usize, status: &str| {
            format!(r#"{{"record":"execution","plan":{plan},"status":"{status}","tensors":[]}}"#)
        };
        let data = |plan: usize, execution: u64, uid: i64| {
            format!(
                r#"{{"record":"data","plan":{plan},"execution":{execution},"uid":{uid},"is_after":false,"file":"f","bytes":1}}"#
            )
        };
        let lines = [
            START.to_owned(),
            graph("a"),
            graph("b"),
            plan(0, "a"),
            data(0, 1, 10),
            execution(0, "SUCCESS"),
            data(0, 2, 11),
            plan(1, "b"),
            data(1, 1, 20),
            execution(1, "SUCCESS"),
            START.to_owned(),
            graph("b"),
            plan(0, "b"),
            data(0, 1, 30),
            execution(0, "EXECUTION_FAILED"),
        ];
        let capture = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let uids: Vec<Vec<i64>> =
            graphs([&capture]).iter().map(|graph| graph.values.iter().map(|data| data.uid).collect()).collect();
        assert_eq!(uids, [[11], [30]]);
        let left_out = |graph: usize| graphs([&capture])[graph].left_out.clone().unwrap();
        assert!(
            left_out(0).contains("execution 2 of plan 0 are replayed, and these are left out: execution 1 of plan 0")
        );
        assert!(
            left_out(1).contains("execution 1 of plan 0 are replayed, and these are left out: execution 1 of plan 1")
        );
        let captured = &graphs([&capture])[0];
        let request = captured.request(Path::new("dir/app.cudnncap"), &[DataSet::Normal]);
        assert_eq!(request.data, [DataSet::Normal, DataSet::Captured]);
        assert_eq!(request.values.unwrap().dir, Path::new("dir/app.cudnncap.data"));
        let without = Captured { values: Vec::new(), ..captured.clone() }.request(Path::new("x"), &[DataSet::Normal]);
        assert_eq!((without.data, without.values), (vec![DataSet::Normal], None));
    }

    #[test]
    fn graphs_of_several_captures_are_distinct() {
        let plan =
            |graph: &str| format!(r#"{{"record":"plan","plan":0,"graph":"{graph}","status":"SUCCESS","build_us":1}}"#);
        let device = |name: &str| format!(r#"{{"record":"device","device":0,"description":"{name}"}}"#);
        let data = r#"{"record":"data","plan":0,"execution":1,"uid":7,"is_after":false,"file":"f","bytes":1}"#;
        let failure = r#"{"record":"failure","call":"cudnnBackendFinalize","status":"BAD_PARAM","descriptors":[{"kind":"TENSOR","finalized":false}]}"#;
        let parse = |lines: &[&str]| Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let first = parse(&[START, &device("first"), &graph("a"), &plan("a"), failure]);
        let second = parse(&[START, failure, &graph("b"), &graph("a"), &plan("a"), data]);
        let found = |captures: &[&Capture]| -> Vec<(String, usize, Vec<i64>, Option<String>)> {
            let found = graphs(captures.iter().copied()).into_iter();
            found.map(|of| (of.id, of.capture, of.values.iter().map(|data| data.uid).collect(), of.device)).collect()
        };
        let both = found(&[&first, &second]);
        let [a, b] = [&graphs([&first])[0].id, &graphs([&second])[0].id].map(String::clone);
        assert_eq!(both[0], (a.clone(), 1, vec![7], Some("first".to_owned())));
        assert_eq!(both[1], (b.clone(), 1, vec![], None));
        // The failed call is in both captures, and has the device of the first one.
        assert_eq!((both.len(), both[2].1, both[2].3.as_deref()), (3, 0, Some("first")));
        let before = parse(&[START, &device("first"), failure, &device("second")]);
        assert_eq!(found(&[&before])[0].3.as_deref(), Some("first"));
        assert_eq!(found(&[&second, &first])[..2].iter().map(|of| of.0.as_str()).collect::<Vec<_>>(), [&b, &a]);
        let left_out = |captures: [&Capture; 2]| graphs(captures)[0].left_out.clone();
        assert_eq!(left_out([&first, &second]), None);
        let same = graphs([&second, &second]);
        assert!(same[1].left_out.as_ref().unwrap().contains("execution 1 of plan 0 of another capture"), "{same:?}");
    }

    #[test]
    fn plans_with_values_or_executions_are_preferred() {
        let plan = |ordinal: usize| {
            format!(
                r#"{{"record":"plan","plan":{ordinal},"graph":"g","device":{ordinal},"status":"SUCCESS","build_us":1}}"#
            )
        };
        let device = |ordinal: usize| format!(r#"{{"record":"device","device":{ordinal},"description":"d{ordinal}"}}"#);
        let execution = |ordinal: usize, status: &str| {
            format!(r#"{{"record":"execution","plan":{ordinal},"status":"{status}","tensors":[]}}"#)
        };
        let data =
            r#"{"record":"data","plan":3,"execution":5,"uid":7,"is_after":false,"file":"f","bytes":1}"#.to_owned();
        let lines = [
            r#"{"record":"start","format":1,"cudnn":91900,"cudart":13000}"#.to_owned(),
            device(4),
            device(0),
            r#"{"record":"graph","graph":"g","label":"","nodes":[{"kind":"OPERATIONGRAPH"}]}"#.to_owned(),
            device(1),
            device(2),
            device(3),
            r#"{"record":"proposals","graph":"g","device":0,"mode":0,"count":1}"#.to_owned(),
            plan(1),
            plan(2),
            execution(2, "SUCCESS"),
            plan(3),
            data,
            execution(3, "SUCCESS"),
            execution(1, "EXECUTION_FAILED"),
        ];
        let cases = [(4, None, "d0"), (7, None, "d3"), (8, None, "d0"), (9, Some(1), "d1"), (11, Some(2), "d2")];
        for (count, plan, device) in cases.into_iter().chain([(14, Some(3), "d3"), (15, Some(1), "d1")]) {
            let capture = Capture::parse((lines[..count].join("\n") + "\n").as_bytes()).unwrap();
            let [graph] = &graphs([&capture])[..] else { panic!() };
            let chosen = graph.plan.as_ref().map(|plan| plan.plan);
            assert_eq!((chosen, graph.device.as_deref()), (plan, Some(device)), "{count} lines");
            assert_eq!(graph.values.len(), usize::from(count == 14), "{count} lines");
        }
    }

    #[test]
    fn failed_calls_follow_the_graphs() {
        let failure = r#"{"record":"failure","call":"cudnnBackendSetAttribute","status":"BAD_PARAM","attribute":["TENSOR_DIMENSIONS",23,1,"01000000"],"descriptors":[{"kind":"TENSOR","finalized":false}]}"#;
        let execution = r#"{"record":"failure","call":"cudnnBackendExecute","status":"BAD_PARAM"}"#;
        let lines = [
            r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#,
            failure,
            failure,
            execution,
            r#"{"record":"graph","graph":"a","label":"A","nodes":[{"kind":"OPERATIONGRAPH"}]}"#,
        ];
        let capture = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let graphs = graphs([&capture]);
        let labels: Vec<&str> = graphs.iter().map(|graph| graph.label.as_str()).collect();
        assert_eq!(labels, ["A", "cudnnBackendSetAttribute TENSOR_DIMENSIONS: BAD_PARAM"]);
        assert_eq!(graphs[1].id, graphs[1].graph.id());
    }

    #[test]
    fn plans_that_work_or_have_an_engine_are_preferred() {
        let plan = |ordinal: usize, status: &str, engine: &str| {
            format!(r#"{{"record":"plan","plan":{ordinal},"graph":"g","status":"{status}","build_us":1{engine}}}"#)
        };
        let engine = r#","engine":{"index":7}"#;
        let lines = [
            r#"{"record":"start","format":1,"cudnn":91900,"cudart":13000}"#.to_owned(),
            r#"{"record":"graph","graph":"g","label":"","nodes":[{"kind":"OPERATIONGRAPH"}]}"#.to_owned(),
            plan(0, "NOT_SUPPORTED", ""),
            plan(1, "INTERNAL_ERROR", engine),
            plan(2, "NOT_SUPPORTED", engine),
            plan(3, "SUCCESS", engine),
            plan(4, "SUCCESS", engine),
        ];
        for (count, expected) in [(3, 0), (4, 1), (5, 1), (6, 3), (7, 3)] {
            let capture = Capture::parse((lines[..count].join("\n") + "\n").as_bytes()).unwrap();
            let chosen = graphs([&capture])[0].plan.as_ref().map(|plan| plan.plan);
            assert_eq!(chosen, Some(expected), "{count} lines");
        }
    }
}

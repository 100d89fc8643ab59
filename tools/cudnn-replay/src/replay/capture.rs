//! Turns a capture into requests.

use std::collections::BTreeMap;
use std::path::Path;

use cudnn_capture_file::{Capture, Data, Execution, Failure, Graph, Plan, Record, values_dir};

use super::request::{CapturedValues, DEFAULT_MAX_BYTES, DataSet, Engines, Request};

/// A graph of a capture with the first records about it, or the descriptors of a failed call.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The id.
    pub id: String,
    /// The graph in one line.
    pub label: String,
    /// The graph. The last descriptor of a failed call is the refused one, and not an operation graph.
    pub graph: Graph,
    /// cuDNN's description of the device.
    pub device: Option<String>,
    /// The first plan that worked, otherwise the first one with an engine, otherwise the first one.
    pub plan: Option<Plan>,
    /// The first execution.
    pub execution: Option<Execution>,
    /// The files with the values of tensors before and after this execution.
    pub values: Vec<Data>,
}

/// Returns the distinct graphs of a capture, in the order of their first records. Failed calls follow, if the capture
/// contains the descriptors.
#[must_use]
pub fn graphs(capture: &Capture) -> Vec<Captured> {
    let mut graphs = Vec::<Captured>::new();
    let mut places = BTreeMap::<&str, usize>::new();
    // Ordinals count from the start of a process.
    let (mut devices, mut plans) = (BTreeMap::new(), BTreeMap::new());
    let mut process = 0;
    // The records of values by process and plan, and the process and plan of the graphs' executions.
    let mut values = BTreeMap::<(usize, usize), Vec<&Data>>::new();
    let mut executed = BTreeMap::<usize, (usize, usize)>::new();
    for record in &capture.records {
        match record {
            Record::Start(_) => {
                (devices, plans) = (BTreeMap::new(), BTreeMap::new());
                process += 1;
            }
            Record::Device(device) if !device.description.is_empty() => {
                devices.insert(device.device, &device.description);
            }
            Record::Graph(record) if !places.contains_key(record.graph.as_str()) => {
                places.insert(&record.graph, graphs.len());
                graphs.push(Captured::new(record.graph.clone(), record.label.clone(), record.nodes.clone()));
            }
            Record::Plan(plan) => {
                let graph = places.get(plan.graph.as_str()).and_then(|place| graphs.get_mut(*place));
                let Some(graph) = graph else { continue };
                // A plan without an engine shows that the heuristics or an engine were refused.
                let rank = |plan: &Plan| (plan.status == "SUCCESS", plan.engine.is_some());
                if graph.plan.as_ref().is_none_or(|known| rank(known) < rank(plan)) {
                    graph.plan = Some(plan.clone());
                    graph.device = plan.device.and_then(|device| devices.get(&device)).map(|text| (*text).clone());
                }
                plans.insert(plan.plan, plan);
            }
            Record::Execution(execution) => {
                let Some(plan) = plans.get(&execution.plan).copied() else { continue };
                let Some(place) = places.get(plan.graph.as_str()).copied() else { continue };
                let Some(graph) = graphs.get_mut(place) else { continue };
                let failed = |execution: &Execution| execution.status != "SUCCESS";
                let is_first = graph.execution.is_none() && graph.plan.as_ref() == Some(plan);
                // A failure is what the user wants to see, with the plan that has failed.
                if is_first || failed(execution) && !graph.execution.as_ref().is_some_and(failed) {
                    (graph.plan, graph.execution) = (Some(plan.clone()), Some(execution.clone()));
                    executed.insert(place, (process, execution.plan));
                }
            }
            Record::Data(data) => values.entry((process, data.plan)).or_default().push(data),
            _ => {}
        }
    }
    for (place, graph) in graphs.iter_mut().enumerate() {
        let records = executed.get(&place).and_then(|source| values.get(source));
        let records = records.map(Vec::as_slice).unwrap_or_default();
        let first = records.iter().map(|data| data.execution).min();
        graph.values =
            records.iter().filter(|data| Some(data.execution) == first).map(|data| (*data).clone()).collect();
    }
    graphs.extend(failed_calls(capture));
    graphs
}

/// Returns the distinct failed calls with descriptors.
fn failed_calls(capture: &Capture) -> Vec<Captured> {
    let mut calls = Vec::<Captured>::new();
    let mut device = None;
    for record in &capture.records {
        match record {
            Record::Device(record) => device = Some(&record.description).filter(|text| !text.is_empty()),
            Record::Failure(failure) => {
                let Ok(graph) = failure.graph() else { continue };
                let id = graph.id();
                if !calls.iter().any(|known| known.id == id) {
                    let device = device.cloned();
                    calls.push(Captured { device, ..Captured::new(id, label(failure), graph) });
                }
            }
            _ => {}
        }
    }
    calls
}

/// Returns a failed call in one line, such as `cudnnBackendSetAttribute TENSOR_DIMENSIONS: BAD_PARAM`.
fn label(failure: &Failure) -> String {
    let attribute = failure.attribute.as_ref().map(|(name, ..)| format!(" {name}")).unwrap_or_default();
    format!("{}{attribute}: {}", failure.call, failure.status)
}

impl Captured {
    fn new(id: String, label: String, graph: Graph) -> Self {
        Captured { id, label, graph, device: None, plan: None, execution: None, values: Vec::new() }
    }

    /// Returns a request for this graph of a capture file, with the first engine that works and two executions. The
    /// captured values are used in addition to the selected data sets, if the capture contains any.
    #[must_use]
    pub fn request(&self, file: &Path, data: &[DataSet]) -> Request {
        let mut data = data.to_vec();
        if !self.values.is_empty() && !data.contains(&DataSet::Captured) {
            data.push(DataSet::Captured);
        }
        let values = CapturedValues { dir: values_dir(file), records: self.values.clone() };
        Request {
            graph: self.graph.clone(),
            device: self.device.clone(),
            engines: Engines::First,
            execution: self.execution.clone(),
            data,
            values: Some(values).filter(|values| !values.records.is_empty()),
            max_bytes: DEFAULT_MAX_BYTES,
            repeat: 2,
            time: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_the_execution_that_is_replayed() {
        let start = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;
        let graph = |id: &str| {
            let kind = if id == "a" { "OPERATIONGRAPH" } else { "TENSOR" };
            format!(r#"{{"record":"graph","graph":"{id}","label":"","nodes":[{{"kind":"{kind}"}}]}}"#)
        };
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
            start.to_owned(),
            graph("a"),
            graph("b"),
            plan(0, "a"),
            data(0, 1, 10),
            execution(0, "SUCCESS"),
            data(0, 2, 11),
            plan(1, "b"),
            data(1, 1, 20),
            execution(1, "SUCCESS"),
            start.to_owned(),
            graph("b"),
            plan(0, "b"),
            data(0, 1, 30),
            execution(0, "EXECUTION_FAILED"),
        ];
        let capture = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let uids: Vec<Vec<i64>> =
            graphs(&capture).iter().map(|graph| graph.values.iter().map(|data| data.uid).collect()).collect();
        assert_eq!(uids, [[10], [30]]);
        let captured = &graphs(&capture)[0];
        let request = captured.request(Path::new("dir/app.cudnncap"), &[DataSet::Normal]);
        assert_eq!(request.data, [DataSet::Normal, DataSet::Captured]);
        assert_eq!(request.values.unwrap().dir, Path::new("dir/app.cudnncap.data"));
        let without = Captured { values: Vec::new(), ..captured.clone() }.request(Path::new("x"), &[DataSet::Normal]);
        assert_eq!((without.data, without.values), (vec![DataSet::Normal], None));
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
        let graphs = graphs(&capture);
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
            let chosen = graphs(&capture)[0].plan.as_ref().map(|plan| plan.plan);
            assert_eq!(chosen, Some(expected), "{count} lines");
        }
    }
}

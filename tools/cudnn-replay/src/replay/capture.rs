//! Turns a capture into requests.

use std::collections::BTreeMap;

use cudnn_capture_file::{Capture, Execution, Graph, Plan, Record};

/// A graph of a capture with the first records about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The id.
    pub id: String,
    /// The graph in one line.
    pub label: String,
    /// The graph.
    pub graph: Graph,
    /// cuDNN's description of the device.
    pub device: Option<String>,
    /// The first plan that worked, otherwise the first one with an engine, otherwise the first one.
    pub plan: Option<Plan>,
    /// The first execution.
    pub execution: Option<Execution>,
}

/// Returns the distinct graphs of a capture, in the order of their first records.
#[must_use]
pub fn graphs(capture: &Capture) -> Vec<Captured> {
    let mut graphs = Vec::<Captured>::new();
    let mut places = BTreeMap::<&str, usize>::new();
    // Ordinals count from the start of a process.
    let (mut devices, mut plans) = (BTreeMap::new(), BTreeMap::new());
    for record in &capture.records {
        match record {
            Record::Start(_) => (devices, plans) = (BTreeMap::new(), BTreeMap::new()),
            Record::Device(device) if !device.description.is_empty() => {
                devices.insert(device.device, &device.description);
            }
            Record::Graph(record) if !places.contains_key(record.graph.as_str()) => {
                places.insert(&record.graph, graphs.len());
                graphs.push(Captured {
                    id: record.graph.clone(),
                    label: record.label.clone(),
                    graph: record.nodes.clone(),
                    device: None,
                    plan: None,
                    execution: None,
                });
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
                let graph = places.get(plan.graph.as_str()).and_then(|place| graphs.get_mut(*place));
                let Some(graph) = graph else { continue };
                let failed = |execution: &Execution| execution.status != "SUCCESS";
                let is_first = graph.execution.is_none() && graph.plan.as_ref() == Some(plan);
                // A failure is what the user wants to see, with the plan that has failed.
                if is_first || failed(execution) && !graph.execution.as_ref().is_some_and(failed) {
                    (graph.plan, graph.execution) = (Some(plan.clone()), Some(execution.clone()));
                }
            }
            _ => {}
        }
    }
    graphs
}

#[cfg(test)]
mod tests {
    use super::*;

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

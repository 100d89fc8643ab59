//! Selects a graph of a capture, with its plan, execution and device.

use std::collections::BTreeMap;

use cudnn_capture_file::{Capture, Execution, Graph, Plan, Record, Start};

/// A graph and the circumstances under which it was captured.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The graph.
    pub graph: Graph,
    /// The graph in one line, for display.
    pub label: String,
    /// The releases that the program used.
    pub start: Start,
    /// The description of the device in cuDNN's JSON.
    pub device: String,
    /// A plan of the graph: one that was executed, otherwise one that was built, otherwise the first one.
    pub plan: Option<Plan>,
    /// The first execution of the plan.
    pub execution: Option<Execution>,
}

impl Case {
    /// Returns the case of a graph without a plan.
    #[must_use]
    pub fn new(graph: Graph, start: Start) -> Self {
        let device = cudnn_loader::devices::H200.to_owned();
        Case { graph, label: String::new(), start, device, plan: None, execution: None }
    }

    /// Selects a graph by its id, or by the first digits of its id.
    ///
    /// # Errors
    /// Returns an error if no graph or more than one graph has the id.
    pub fn from_capture(capture: &Capture, id: &str) -> Result<Self, String> {
        let mut ids: Vec<&str> = capture.records.iter().filter_map(graph_id).filter(|it| it.starts_with(id)).collect();
        ids.sort_unstable();
        ids.dedup();
        let id = match ids.as_slice() {
            [id] => *id,
            [] => return Err(format!("the capture has no graph with the id {id}")),
            ids => return Err(format!("the id {id} is ambiguous: {}", ids.join(", "))),
        };
        let mut start = Start { format: cudnn_capture_file::FORMAT, cudnn: 0, cudart: 0 };
        let mut devices = BTreeMap::new();
        let mut case: Option<Case> = None;
        for record in &capture.records {
            match record {
                // Ordinals begin again in each process.
                Record::Start(next) => {
                    start = next.clone();
                    devices.clear();
                    if case.as_ref().is_some_and(|case| case.plan.is_some()) {
                        break;
                    }
                }
                Record::Device(device) if !device.description.is_empty() => {
                    devices.insert(device.device, device.description.as_str());
                }
                Record::Graph(graph) if graph.graph == id => {
                    let mut found = Case::new(graph.nodes.clone(), start.clone());
                    found.label.clone_from(&graph.label);
                    case.get_or_insert(found);
                }
                Record::Plan(plan) if plan.graph == id => {
                    if let Some(case) = &mut case
                        && case.rank() < rank(plan)
                    {
                        case.plan = Some(plan.clone());
                        case.start = start.clone();
                        if let Some(device) = plan.device.and_then(|device| devices.get(&device)) {
                            (*device).clone_into(&mut case.device);
                        }
                    }
                }
                Record::Execution(execution) => {
                    if let Some(case) = &mut case
                        && case.execution.is_none()
                        && case.plan.as_ref().is_some_and(|plan| plan.plan == execution.plan)
                    {
                        case.execution = Some(execution.clone());
                    }
                }
                _ => {}
            }
        }
        case.ok_or_else(|| format!("the graph {id} could not be stored in the capture"))
    }

    fn rank(&self) -> u8 {
        if self.execution.is_some() { u8::MAX } else { self.plan.as_ref().map_or(0, rank) }
    }
}

/// A plan that was built is preferred.
fn rank(plan: &Plan) -> u8 {
    if plan.status == "SUCCESS" { 2 } else { 1 }
}

fn graph_id(record: &Record) -> Option<&str> {
    match record {
        Record::Graph(graph) => Some(&graph.graph),
        _ => None,
    }
}
